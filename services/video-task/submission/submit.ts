import type { MessageInitShape } from "@bufbuild/protobuf";
import { RefusalReason, type SubmitRequest, type SubmitResponseSchema } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { requestRoutes, type ProviderDeps } from "./request-routes.ts";
import { awaitOutcome, underWay } from "./await-outcome.ts";
import { checkSubmission, type CheckedSubmission } from "../check-request.ts";
import { holdLease } from "./lease.ts";
import type { SubmissionSlots } from "./slots.ts";
import { recordOutcome, type RecordDeps } from "./record-outcome.ts";
import { insertIntent, readSubmissionOfKey, type Intent } from "../store/submissions.ts";
import type { SubmittedTask } from "../task.ts";
import { isTask, toOutcome, toRefused, toTask } from "../task-message.ts";

export type SubmitDeps = ProviderDeps &
  RecordDeps & {
    /** How long a submission may be under way without a sign of its process before it counts as unknown. */
    leaseMs: number;
    /** Bounds the submissions under way in this process. */
    slots: SubmissionSlots;
  };

type Response = MessageInitShape<typeof SubmitResponseSchema>;

/**
 * Submits tasks, each rid and each idempotency key at most once across all processes: the intent is stored first, and
 * only the process that stored it sends. Rejects with `invalid_argument`; with `unavailable` when too many are under
 * way, when this process stops, or while the outcome is unknown: the same rid may be submitted again.
 */
export function createSubmit(deps: SubmitDeps): (request: SubmitRequest) => Promise<Response> {
  return async (request) => {
    const checked = checkSubmission(request);
    // Not a refusal: the same rid may be under way elsewhere, and another replica can take it.
    if (deps.slots.stop.isStopped()) throw new ServiceError("unavailable", "this process is stopping");
    using _slot = deps.slots.take(request.reference?.content.length ?? 0);
    return await submitOnce(deps, checked, request);
  };
}

// An idempotency key becomes free again when its earlier submission is refused meanwhile.
const maxAttempts = 5;

async function submitOnce(deps: SubmitDeps, checked: CheckedSubmission, request: SubmitRequest): Promise<Response> {
  const { intent } = checked;
  const waiting = { pool: deps.pool, stop: deps.slots.stop };
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const sinceMs = performance.now();
    if (await insertIntent(deps.pool, intent, deps.leaseMs)) {
      faultPoint("video-task: intent written, nothing sent");
      return toOutcome(await send(deps, checked, { request, sinceMs }));
    }
    const own = await awaitOutcome(waiting, intent.rid);
    if (own) return outcomeOfOwn(own, intent);
    const earlier = await outcomeOfKey(deps, intent);
    if (earlier) return earlier;
  }
  throw underWay();
}

function outcomeOfOwn(own: SubmittedTask, intent: Intent): Response {
  if (own.accountId !== intent.accountId) throw new ServiceError("invalid_argument", "the rid is another account's");
  return toOutcome(own);
}

async function outcomeOfKey({ pool, slots }: SubmitDeps, intent: Intent): Promise<Response | undefined> {
  const { accountId, idempotencyKey, requestHash } = intent;
  if (idempotencyKey === undefined) return undefined;
  const earlier = await readSubmissionOfKey(pool, accountId, idempotencyKey);
  if (!earlier) return undefined;
  if (!earlier.requestHash.equals(requestHash)) return { outcome: { case: "keyReused", value: {} } };
  const row = await awaitOutcome({ pool, stop: slots.stop }, earlier.rid);
  if (!row) return undefined;
  // A caller that waited for a refusal gets it too, instead of requesting the provider again at once.
  return isTask(row)
    ? { outcome: { case: "earlier", value: toTask(row) } }
    : { outcome: { case: "refused", value: toRefused(row) } };
}

type SendContext = { request: SubmitRequest; sinceMs: number };

async function send(
  deps: SubmitDeps,
  { intent, charge }: CheckedSubmission,
  context: SendContext,
): Promise<SubmittedTask> {
  const { prompt, seconds, size, reference, routes, holdSecret } = context.request;
  const { rid, upstream } = intent;
  const { pool, log, leaseMs } = deps;
  await using lease = holdLease({ pool, log, rid, upstream, leaseMs }, context.sinceMs);
  const result = await requestRoutes(deps, { rid, job: { prompt, seconds, size, reference } }, routes, lease);
  const row = await recordOutcome(deps, { charge, holdSecret }, result);
  const outcome = isTask(row) ? "accepted" : row.refusal === RefusalReason.UNKNOWN ? "unknown" : "refused";
  report(deps, row, { upstream: result.kind === "accepted" ? result.route.upstream : result.upstream, outcome });
  return row;
}

type SubmissionReport = { upstream: string; outcome: "accepted" | "refused" | "unknown" };

function report({ metrics, log }: SubmitDeps, row: SubmittedTask, { upstream, outcome }: SubmissionReport): void {
  const { rid, accountId: account, errorMessage } = row;
  const line = { rid, account, upstream, outcome, ...(outcome !== "accepted" && { cause: errorMessage }) };
  metrics.submissions.inc({ outcome });
  if (outcome === "unknown") log.warn(line, "unknown whether a provider accepted the submission");
  else log.info(line, "submitted");
}
