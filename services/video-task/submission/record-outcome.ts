import { setTimeout as wait } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import type { Logger } from "#shared/process/log.ts";
import { withProof } from "#shared/money/hold-proof.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { isRefusedData, type Pool } from "#shared/stores/postgres.ts";
import type { SubmissionResult } from "./request-routes.ts";
import type { Metrics } from "../metrics.ts";
import {
  acceptSubmission,
  isAcceptedAs,
  readSubmission,
  refuseSubmission,
  type Acceptance,
  type Refusal,
} from "../store/submissions.ts";
import type { SubmittedTask } from "../task.ts";

export type RecordDeps = {
  pool: Pool;
  metrics: Metrics;
  log: Logger;
  /** Milliseconds from acceptance to the first poll. */
  firstPollMs: () => number;
};

/** The charge as the relay sent it, and what proves it to billing. */
export type HeldCharge = { charge: UsageRecorded; holdSecret: Uint8Array };

type AcceptedResult = Extract<SubmissionResult, { kind: "accepted" }>;

// An accepted submission is worth money: a short outage of the database must not lose it.
const recordMs = 60_000;
const againMs = 250;

/**
 * Stores the result of a submission and resolves with the stored outcome, which differs when the lease had ended.
 * Retries for a minute while PostgreSQL is down, then rejects with the last error.
 */
export async function recordOutcome(deps: RecordDeps, held: HeldCharge, result: SubmissionResult) {
  const { charge } = held;
  const { pool, log } = deps;
  if (result.kind === "refused") return recordRefusal(pool, charge.rid, result.refusal);
  faultPoint("video-task: provider has taken it, nothing written");
  const acceptance = acceptanceOf(deps, held, result);
  const about = { rid: charge.rid, account: charge.accountId, upstream: acceptance.upstream };
  const taken = { ...about, upstreamId: acceptance.upstreamId, costNanos: String(acceptance.costNanos) };
  try {
    const row = await persist(pool, () => recordAcceptance(pool, charge.rid, acceptance));
    if (row) return row;
  } catch (error) {
    deps.metrics.lateAcceptances.inc();
    log.error({ ...taken, err: error }, "failed to record a submission that a provider accepted");
    if (!isRefusedData(error)) throw error;
    const cause = "the provider's answer cannot be recorded";
    return recordRefusal(pool, charge.rid, { reason: RefusalReason.UNKNOWN, retryAfterSeconds: 0, cause });
  }
  // Callers were told that the outcome is unknown and costs nothing, so that stands.
  deps.metrics.lateAcceptances.inc();
  log.error(taken, "a provider accepted a submission after it counted as unknown");
  return persist(pool, () => found(pool, charge.rid));
}

/** The final charge: the relay's, completed by the provider's answer. */
function acceptanceOf(
  { firstPollMs }: RecordDeps,
  { charge, holdSecret }: HeldCharge,
  accepted: AcceptedResult,
): Acceptance {
  const { upstream, model, upstreamCostNanos } = accepted.route;
  const at = timestampFromMs(Date.now());
  const final = create(UsageRecordedSchema, {
    ...charge,
    upstream,
    modelServed: model,
    firstByteAt: at,
    endedAt: at,
    ...(upstreamCostNanos !== undefined && { upstreamCostNanos }),
  });
  return {
    upstream,
    dialect: accepted.dialect,
    upstreamId: accepted.upstreamId,
    costNanos: charge.costNanos,
    charge: withProof(holdSecret, toBinary(UsageRecordedSchema, final)),
    firstPollMs: firstPollMs(),
  };
}

async function recordAcceptance(pool: Pool, rid: string, acceptance: Acceptance): Promise<SubmittedTask | undefined> {
  const row = await acceptSubmission(pool, rid, acceptance);
  faultPoint("video-task: acceptance written, relay not answered");
  if (row) return row;
  return (await isAcceptedAs(pool, rid, acceptance)) ? found(pool, rid) : undefined;
}

function recordRefusal(pool: Pool, rid: string, { cause, ...refusal }: Refusal): Promise<SubmittedTask> {
  // PostgreSQL cannot store NUL, and a provider's text may be long.
  const stored = { ...refusal, cause: cause.replaceAll("\0", "").slice(0, 500) };
  return persist(pool, async () => (await refuseSubmission(pool, rid, stored)) ?? found(pool, rid));
}

async function found(pool: Pool, rid: string): Promise<SubmittedTask> {
  const row = await readSubmission(pool, rid);
  if (!row) throw new Error(`the intent of ${rid} is gone`);
  return row;
}

async function persist<T>(pool: Pool, work: () => Promise<T>): Promise<T> {
  const untilMs = performance.now() + recordMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      // A process that stops has closed its pool and cannot record any more.
      if (isRefusedData(error) || pool.ended || performance.now() >= untilMs) throw error;
    }
    await wait(againMs);
  }
}
