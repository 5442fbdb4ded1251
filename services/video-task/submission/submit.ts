import type { MessageInitShape } from "@bufbuild/protobuf";
import { RefusalReason, type SubmitRequest, type SubmitResponseSchema } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { askRoutes, type Asking } from "./request-routes.ts";
import { awaitOutcome, underWay } from "./await-outcome.ts";
import { checkSubmission, type Checked } from "../check-request.ts";
import { holdLease } from "./lease.ts";
import type { Places } from "./slots.ts";
import { recordOutcome, type Recording } from "./record-outcome.ts";
import { insertIntent, readSubmissionOfKey, type Intent } from "../store/submissions.ts";
import type { Submitted } from "../task.ts";
import { isTask, toOutcome, toRefused, toTask } from "../task-message.ts";

export type SubmitParts = Asking &
  Recording & {
    /** How long a submission may be under way without a word of its process before it counts as unknown. */
    leaseMs: number;
    /** Submissions under way in this process. */
    places: Places;
  };

type Response = MessageInitShape<typeof SubmitResponseSchema>;

/**
 * Submits tasks, each rid and each idempotency key at most once, from whatever process: the intent is written down
 * first, and only who has written it sends. Rejects with `invalid_argument`; with `unavailable` when too many are
 * under way, when this process stops, or when the outcome is not known yet: the same rid may be submitted again.
 */
export function createSubmit(parts: SubmitParts): (request: SubmitRequest) => Promise<Response> {
  return async (request) => {
    const checked = checkSubmission(request);
    // Not a refusal: the same rid may be under way elsewhere, and another replica takes it.
    if (parts.places.stop.isStopped()) throw new ServiceError("unavailable", "this process stops");
    using _place = parts.places.take(request.reference?.content.length ?? 0);
    return await submitOnce(parts, checked, request);
  };
}

// The key of an earlier submission is free again when it was refused meanwhile.
const mostAttempts = 5;

async function submitOnce(parts: SubmitParts, checked: Checked, request: SubmitRequest): Promise<Response> {
  const { intent } = checked;
  const waiting = { pool: parts.pool, stop: parts.places.stop };
  for (let attempt = 0; attempt < mostAttempts; attempt += 1) {
    const sinceMs = performance.now();
    if (await insertIntent(parts.pool, intent, parts.leaseMs)) {
      return toOutcome(await send(parts, checked, { request, sinceMs }));
    }
    const own = await awaitOutcome(waiting, intent.rid);
    if (own) return outcomeOfOwn(own, intent);
    const earlier = await outcomeOfKey(parts, intent);
    if (earlier) return earlier;
  }
  throw underWay();
}

function outcomeOfOwn(own: Submitted, intent: Intent): Response {
  if (own.accountId !== intent.accountId) throw new ServiceError("invalid_argument", "the rid is another account's");
  return toOutcome(own);
}

async function outcomeOfKey({ pool, places }: SubmitParts, intent: Intent): Promise<Response | undefined> {
  const { accountId, idempotencyKey, requestHash } = intent;
  if (idempotencyKey === undefined) return undefined;
  const earlier = await readSubmissionOfKey(pool, accountId, idempotencyKey);
  if (!earlier) return undefined;
  if (!earlier.requestHash.equals(requestHash)) return { outcome: { case: "keyReused", value: {} } };
  const row = await awaitOutcome({ pool, stop: places.stop }, earlier.rid);
  if (!row) return undefined;
  // Who has waited for a refusal is told of it too, instead of asking the provider again at once.
  return isTask(row)
    ? { outcome: { case: "earlier", value: toTask(row) } }
    : { outcome: { case: "refused", value: toRefused(row) } };
}

type Sending = { request: SubmitRequest; sinceMs: number };

async function send(parts: SubmitParts, { intent, charge }: Checked, sending: Sending): Promise<Submitted> {
  const { prompt, seconds, size, reference, routes } = sending.request;
  const { rid, upstream } = intent;
  const { pool, log, leaseMs } = parts;
  await using lease = holdLease({ pool, log, rid, upstream, leaseMs }, sending.sinceMs);
  const answered = await askRoutes(parts, { rid, job: { prompt, seconds, size, reference } }, routes, lease);
  const row = await recordOutcome(parts, charge, answered);
  const outcome = isTask(row) ? "accepted" : row.refusal === RefusalReason.UNKNOWN ? "unknown" : "refused";
  report(parts, row, { upstream: answered.kind === "accepted" ? answered.route.upstream : answered.upstream, outcome });
  return row;
}

type Told = { upstream: string; outcome: "accepted" | "refused" | "unknown" };

function report({ metrics, log }: SubmitParts, row: Submitted, { upstream, outcome }: Told): void {
  const { rid, accountId: account, errorMessage } = row;
  const line = { rid, account, upstream, outcome, ...(outcome !== "accepted" && { cause: errorMessage }) };
  metrics.submissions.inc({ outcome });
  if (outcome === "unknown") log.warn(line, "nobody knows whether a provider took the submission");
  else log.info(line, "submitted");
}
