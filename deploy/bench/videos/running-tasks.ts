import { createPool } from "#shared/stores/postgres.ts";
import { videoPrompt } from "#fake-provider/videos-behaviour.ts";
import { encodedCharge } from "../../../services/video-task/testing/polled-task.ts";
import { inFlight } from "./in-flight.ts";

const askedAtOnce = 32;

/** Has a provider take `count` tasks that never end, and tells its names of them. */
export async function takeEndless(providerUrl: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  const headers = { authorization: "Bearer sk-studio", "content-type": "application/json" };
  const body = JSON.stringify({ prompt: videoPrompt({ end: "never" }), seconds: "8", size: "1280x720" });
  await inFlight(askedAtOnce, count, async () => {
    const response = await fetch(`${providerUrl}/v1/videos`, { method: "POST", headers, body });
    ids.push(((await response.json()) as { id: string }).id);
  });
  return ids;
}

/** Writes tasks down that a provider has taken, as the owner of the table, their charges booked. */
export async function putRunning(ownerUrl: string, upstreamIds: string[]): Promise<void> {
  await using pool = createPool(ownerUrl, "bench", () => undefined);
  await pool.query(
    `WITH put AS (
       INSERT INTO video_task.task (rid, account_id, state, request_hash, model, prompt, seconds, size,
         deadline_seconds, charge, upstream, dialect, upstream_id, cost_nanos, accepted_at, next_look_at)
       SELECT gen_random_uuid(), 'acct_bench', 'queued', sha256('asked'), 'demo-video', 'a cat in the rain', 8,
         '1280x720', 86400, $2, 'first', 'openai-videos', id, 800000000, now(), now()
       FROM unnest($1::text[]) AS id
       RETURNING rid, account_id, cost_nanos
     )
     INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, booked_at)
     SELECT rid, 1, account_id, cost_nanos, 'accepted', now() FROM put`,
    [upstreamIds, encodedCharge("00000000-0000-7000-8000-000000000000")],
  );
}

/** Puts the polls of all tasks off until they are spread, and cleans up what the polls before have left. */
export async function parkPolls(ownerUrl: string): Promise<void> {
  await using pool = createPool(ownerUrl, "bench", () => undefined);
  await pool.query("UPDATE video_task.task SET next_look_at = now() + interval '1 day'");
  await pool.query("VACUUM ANALYZE video_task.task");
}

/**
 * Spreads the first polls as they are after a long time at waits of 0.5 to 1.5 times `pollMs`: the rest of a wait that
 * began somewhere before, long waits being met more often. Spread evenly, polls would come in waves for a while.
 */
export async function spreadPolls(ownerUrl: string, pollMs: number): Promise<void> {
  await using pool = createPool(ownerUrl, "bench", () => undefined);
  const rest = "random() * sqrt(0.25 + 2 * random()) * $1::float8 * interval '1 millisecond'";
  await pool.query(`UPDATE video_task.task SET next_look_at = now() + ${rest}`, [pollMs]);
}
