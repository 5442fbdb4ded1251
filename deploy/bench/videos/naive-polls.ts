import { setTimeout as wait } from "node:timers/promises";
import { createPools } from "#shared/catalog/pools.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { createProviderRequests } from "../../../services/video-task/providers/request.ts";
import { providers } from "../../../services/video-task/providers/index.ts";
import { upstreamAt } from "../../../services/video-task/testing/upstream-at.ts";

/** Polls in the naive way, until disposal. */
export type NaivePolls = AsyncDisposable & { polls: () => number };

type NaivePollsOptions = { databaseUrl: string; providerUrl: string; pollMs: number };

/**
 * Polls tasks as most people would do it first: a timer for each, which reads its row, asks the provider
 * and writes the row, on as many connections as the service has. It claims nothing, so that it works in one process
 * only; of what an answer means it knows nothing but the progress; and a poll that fails is left to the next timer.
 */
export async function startNaivePolls({ databaseUrl, providerUrl, pollMs }: NaivePollsOptions): Promise<NaivePolls> {
  await using resources = new AsyncDisposableStack();
  const pool = resources.use(createPool(databaseUrl, "naive", () => undefined));
  const ask = createProviderRequests(resources.use(createPools()));
  const upstream = upstreamAt(providerUrl, { name: "first", maxConcurrent: 64 });
  const { poll } = providers["openai-videos"];
  const stop = new AbortController();
  let polls = 0;

  const pollTask = async (rid: string): Promise<void> => {
    const { rows } = await pool.query({ name: "read", text: readTask, values: [rid] });
    const { upstreamId, progress } = rows[0] as { upstreamId: string; progress: number };
    const asked = await ask(upstream, poll.write(upstreamId, upstream.credential));
    if (asked.kind !== "answer") return;
    const seen = poll.read(asked.answer);
    if (seen.state !== "in_progress") return;
    const values = [rid, Math.max(progress, seen.progress ?? 0), pollMs];
    await pool.query({ name: "write", text: writeTask, values });
    polls += 1;
  };
  const follow = async (rid: string): Promise<void> => {
    // As spreadPolls spreads them.
    await rest(Math.random() * Math.sqrt(0.25 + 2 * Math.random()) * pollMs);
    while (!stop.signal.aborted) {
      await pollTask(rid).catch(() => undefined);
      await rest(pollMs * (0.5 + Math.random()));
    }
  };
  const rest = (ms: number): Promise<void> => wait(ms, undefined, { signal: stop.signal }).catch(() => undefined);
  const { rows } = await pool.query("SELECT rid FROM video_task.task");
  const following = Promise.all(rows.map(({ rid }) => follow(rid as string)));
  resources.defer(() => following.then(() => undefined));
  resources.defer(() => stop.abort());
  const owned = resources.move();
  return { polls: () => polls, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const readTask = `SELECT upstream_id AS "upstreamId", progress FROM video_task.task WHERE rid = $1`;
const writeTask = `UPDATE video_task.task SET state = 'in_progress', progress = $2,
  next_look_at = now() + $3 * interval '1 millisecond' WHERE rid = $1`;
