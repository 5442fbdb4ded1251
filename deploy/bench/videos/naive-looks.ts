import { setTimeout as wait } from "node:timers/promises";
import { createPools } from "#shared/catalog/pools.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { createAsk } from "../../../services/video-task/providers/request.ts";
import { providers } from "../../../services/video-task/providers/index.ts";
import { upstreamAt } from "../../../services/video-task/testing/upstream-at.ts";

/** Looks in the naive way, until disposal. */
export type NaiveLooks = AsyncDisposable & { looks: () => number };

type Place = { databaseUrl: string; providerUrl: string; lookMs: number };

/**
 * Looks at tasks as most people would do it first: a timer for each, which reads its row, asks the provider
 * and writes the row, on as many connections as the service has. It claims nothing, so that it works in one process
 * only; of what an answer means it knows nothing but the progress; and a look that fails is left to the next timer.
 */
export async function startNaiveLooks({ databaseUrl, providerUrl, lookMs }: Place): Promise<NaiveLooks> {
  await using resources = new AsyncDisposableStack();
  const pool = resources.use(createPool(databaseUrl, "naive", () => undefined));
  const ask = createAsk(resources.use(createPools()));
  const upstream = upstreamAt(providerUrl, { name: "first", maxConcurrent: 64 });
  const { look } = providers["openai-videos"];
  const stop = new AbortController();
  let looks = 0;

  const lookAt = async (rid: string): Promise<void> => {
    const { rows } = await pool.query({ name: "read", text: readTask, values: [rid] });
    const { upstreamId, progress } = rows[0] as { upstreamId: string; progress: number };
    const asked = await ask(upstream, look.write(upstreamId, upstream.credential));
    if (asked.kind !== "answer") return;
    const seen = look.read(asked.answer);
    if (seen.state !== "in_progress") return;
    const values = [rid, Math.max(progress, seen.progress ?? 0), lookMs];
    await pool.query({ name: "write", text: writeTask, values });
    looks += 1;
  };
  const follow = async (rid: string): Promise<void> => {
    // As spreadLooks spreads them.
    await rest(Math.random() * Math.sqrt(0.25 + 2 * Math.random()) * lookMs);
    while (!stop.signal.aborted) {
      await lookAt(rid).catch(() => undefined);
      await rest(lookMs * (0.5 + Math.random()));
    }
  };
  const rest = (ms: number): Promise<void> => wait(ms, undefined, { signal: stop.signal }).catch(() => undefined);
  const { rows } = await pool.query("SELECT rid FROM video_task.task");
  const following = Promise.all(rows.map(({ rid }) => follow(rid as string)));
  resources.defer(() => following.then(() => undefined));
  resources.defer(() => stop.abort());
  const owned = resources.move();
  return { looks: () => looks, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const readTask = `SELECT upstream_id AS "upstreamId", progress FROM video_task.task WHERE rid = $1`;
const writeTask = `UPDATE video_task.task SET state = 'in_progress', progress = $2,
  next_look_at = now() + $3 * interval '1 millisecond' WHERE rid = $1`;
