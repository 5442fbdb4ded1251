import type { Pool } from "#shared/stores/postgres.ts";
import type { Metrics } from "./metrics.ts";
import { readGauges } from "./store/gauges.ts";

const states = ["submitting", "refused", "unknown", "queued", "in_progress", "completed", "failed"] as const;

/** Creates the pass that counts open work. Rejects when PostgreSQL cannot be reached; gauges then keep their values. */
export function createGaugesPass({ pool, metrics }: { pool: Pool; metrics: Metrics }): () => Promise<void> {
  return async () => {
    const { tasks, oldestOpenSeconds, moneyOpen, moneyOldestSeconds } = await readGauges(pool);
    const counts = new Map(tasks.map(({ state, count }) => [state, count]));
    // All states, so that a state without tasks reads 0.
    for (const state of states) metrics.tasks.set({ state }, counts.get(state) ?? 0);
    metrics.oldestOpen.set(oldestOpenSeconds);
    metrics.moneyOpen.set(moneyOpen);
    metrics.moneyOldest.set(moneyOldestSeconds);
  };
}
