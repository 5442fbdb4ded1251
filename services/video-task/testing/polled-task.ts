import { toBinary } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import type { VideoDialectName } from "#shared/catalog/video-dialects.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { createRid } from "#shared/money/rid.ts";
import { acceptSubmission, insertIntent } from "../store/submissions.ts";
import type { RunningTask } from "../task.ts";
import { makeCharge } from "./submissions.ts";

/** The encoded charge of `seconds` at 0.10 USD each. */
export function encodedCharge(rid: string, seconds = 8): Buffer {
  const usage = { $typeName: "usage.v1.Usage", ...makeCharge().usage, mediaMs: BigInt(seconds) * 1_000n } as const;
  const cost = BigInt(seconds) * 100_000_000n;
  const charge = makeCharge({ rid, usage: usage as never, costNanos: cost, heldNanos: cost });
  return Buffer.from(toBinary(UsageRecordedSchema, charge));
}

/** A task as a poll finds it: 8 seconds for 0.80 USD, taken just now, ten minutes to its deadline. */
export function makeRunning(given: Partial<RunningTask> = {}): RunningTask {
  const rid = given.rid ?? createRid();
  return {
    rid,
    accountId: "acct_test",
    state: "queued",
    charge: encodedCharge(rid),
    upstream: "first",
    dialect: "openai-videos",
    upstreamId: `at_provider_${rid}`,
    size: "1280x720",
    costNanos: 800_000_000n,
    progress: 0,
    unanswered: 0,
    missing: 0,
    deadlineSeconds: 600,
    ageMs: 0,
    ...given,
  };
}

export type TaskFields = { rid?: string; upstream?: string; dialect?: VideoDialectName; ageSeconds?: number };

/** Writes down a task that a provider has taken so long ago, as its submission does; due for its first poll. */
export async function insertTask(pool: Pool, given: TaskFields = {}): Promise<string> {
  const { rid = createRid(), upstream = "first", dialect = "openai-videos", ageSeconds = 0 } = given;
  const { charge, costNanos, deadlineSeconds, upstreamId } = makeRunning({ rid });
  const intent = {
    rid,
    accountId: "acct_test",
    idempotencyKey: undefined,
    requestHash: Buffer.alloc(32),
    model: "demo-video",
    prompt: "a cat in the rain",
    seconds: 8,
    size: "1280x720",
    deadlineSeconds,
    charge,
    upstream,
  };
  await insertIntent(pool, intent, 20_000);
  await acceptSubmission(pool, rid, { upstream, dialect, upstreamId, costNanos, charge, firstPollMs: 0 });
  await pool.query("UPDATE video_task.task SET accepted_at = accepted_at - $2 * interval '1 second' WHERE rid = $1", [
    rid,
    ageSeconds,
  ]);
  return rid;
}

/** Lets what waits be due now: polls of all tasks that have a next one. */
export async function makeDue(pool: Pool): Promise<void> {
  await pool.query("UPDATE video_task.task SET next_look_at = now() WHERE next_look_at IS NOT NULL");
}
