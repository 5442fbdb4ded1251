import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import type { Metrics } from "../metrics.ts";
import { expireLeases } from "../store/submissions.ts";

export type SweepDeps = {
  pool: Pool;
  metrics: Metrics;
  log: Logger;
  leaseMs: number;
  /** Milliseconds of a clock that nobody sets. */
  elapsedMs: () => number;
};

/**
 * Creates the pass that marks submissions `unknown` whose process did not renew its lease. A process that could not
 * reach PostgreSQL could not renew it either: after the start and after a failure, the pass does nothing for one lease,
 * so that processes still sending can renew theirs first.
 */
export function createSweepPass({ pool, metrics, log, leaseMs, elapsedMs }: SweepDeps): () => Promise<void> {
  let quietUntilMs = elapsedMs() + leaseMs;
  return async () => {
    try {
      // Also while it is quiet, so that an outage is noticed.
      await pool.query("SELECT");
      if (elapsedMs() < quietUntilMs) return;
      for (const { rid, accountId: account, upstream } of await expireLeases(pool)) {
        const line = { rid, account, upstream, outcome: "unknown", cause: "the lease has ended" };
        metrics.submissions.inc({ outcome: "unknown" });
        log.warn(line, "unknown whether a provider accepted the submission");
      }
    } catch (error) {
      quietUntilMs = elapsedMs() + leaseMs;
      throw error;
    }
  };
}
