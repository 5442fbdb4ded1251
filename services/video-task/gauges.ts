import type { Pool } from "#shared/stores/postgres.ts";
import type { Metrics } from "./metrics.ts";
import { readGauges } from "./store/gauges.ts";

const states = ["submitting", "refused", "unknown", "queued", "in_progress", "completed", "failed"] as const;

/** Makes the pass that counts what is open. Rejects when PostgreSQL cannot be asked; gauges then stay. */
export function createGaugesPass({ pool, metrics }: { pool: Pool; metrics: Metrics }): () => Promise<void> {
  return async () => {
    const { tasks, oldestOpenSeconds, moneyOpen, moneyOldestSeconds } = await readGauges(pool);
    const counts = new Map(tasks.map(({ state, count }) => [state, count]));
    // All of them, so that a state whose last task has left reads 0.
    for (const state of states) metrics.tasks.set({ state }, counts.get(state) ?? 0);
    metrics.oldestOpen.set(oldestOpenSeconds);
    metrics.moneyOpen.set(moneyOpen);
    metrics.moneyOldest.set(moneyOldestSeconds);
  };
}
