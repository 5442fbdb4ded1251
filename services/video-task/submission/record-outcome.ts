import { setTimeout as wait } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import type { Logger } from "#shared/process/log.ts";
import { isRefusedData, type Pool } from "#shared/stores/postgres.ts";
import type { Answered } from "./request-routes.ts";
import type { Metrics } from "../metrics.ts";
import {
  acceptSubmission,
  isAcceptedAs,
  readSubmission,
  refuseSubmission,
  type Acceptance,
  type Refusal,
} from "../store/submissions.ts";
import type { Submitted } from "../task.ts";

export type Recording = {
  pool: Pool;
  metrics: Metrics;
  log: Logger;
  /** Milliseconds from an acceptance to the first poll. */
  firstPollMs: () => number;
};

type Accepted = Extract<Answered, { kind: "accepted" }>;

// What a provider has taken is worth money: a database that is away for a moment must not lose it.
const recordMs = 60_000;
const againMs = 250;

/**
 * Writes down what the providers answered and tells what the submission has come to, which is another outcome when its
 * lease had ended. Tries for a minute while PostgreSQL is away, then throws what it failed with.
 */
export async function recordOutcome(recording: Recording, charge: UsageRecorded, answered: Answered) {
  const { pool, log } = recording;
  if (answered.kind === "refused") return recordRefusal(pool, charge.rid, answered.refusal);
  const acceptance = acceptanceOf(recording, charge, answered);
  const about = { rid: charge.rid, account: charge.accountId, upstream: acceptance.upstream };
  const taken = { ...about, upstreamId: acceptance.upstreamId, costNanos: String(acceptance.costNanos) };
  try {
    const row = await persist(pool, () => recordAcceptance(pool, charge.rid, acceptance));
    if (row) return row;
  } catch (error) {
    recording.metrics.lateAcceptances.inc();
    log.error({ ...taken, err: error }, "a provider has taken a submission that could not be recorded");
    if (!isRefusedData(error)) throw error;
    const cause = "what the provider answered cannot be recorded";
    return recordRefusal(pool, charge.rid, { reason: RefusalReason.UNKNOWN, retryAfterSeconds: 0, cause });
  }
  // Others were told that it is unknown, and that costs nothing: so it stays.
  recording.metrics.lateAcceptances.inc();
  log.error(taken, "a provider has taken a submission after it counted as unknown");
  return persist(pool, () => found(pool, charge.rid));
}

/** The final charge: what the provider's answer adds to what the relay sent. */
function acceptanceOf({ firstPollMs }: Recording, charge: UsageRecorded, accepted: Accepted): Acceptance {
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
    charge: toBinary(UsageRecordedSchema, final),
    firstPollMs: firstPollMs(),
  };
}

async function recordAcceptance(pool: Pool, rid: string, acceptance: Acceptance): Promise<Submitted | undefined> {
  const row = await acceptSubmission(pool, rid, acceptance);
  if (row) return row;
  return (await isAcceptedAs(pool, rid, acceptance)) ? found(pool, rid) : undefined;
}

function recordRefusal(pool: Pool, rid: string, { cause, ...refusal }: Refusal): Promise<Submitted> {
  // PostgreSQL cannot store NUL, and a provider's words may be many.
  const stored = { ...refusal, cause: cause.replaceAll("\0", "").slice(0, 500) };
  return persist(pool, async () => (await refuseSubmission(pool, rid, stored)) ?? found(pool, rid));
}

async function found(pool: Pool, rid: string): Promise<Submitted> {
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
      // A process that ends has closed its pool, and will not record any more.
      if (isRefusedData(error) || pool.ended || performance.now() >= untilMs) throw error;
    }
    await wait(againMs);
  }
}
