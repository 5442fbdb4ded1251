import type { Registry } from "prom-client";
import type { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { counter, counters, gauge, gauges, histogram, histograms } from "#shared/metrics/metrics.ts";
import type { HotTotals } from "./store/hot.ts";
import type { Shard } from "./store/shards.ts";
import { verdictName, type OperationName } from "./operation-names.ts";

/** Why an operation or a Post was answered with an alarm. */
export type ConflictReason = "content" | "malformed" | "unproven" | "ledger";

/** What auth-quota tells Prometheus. */
export type Metrics = {
  verdict: (operation: OperationName, verdict: Verdict) => void;
  conflict: (operation: string, reason: ConflictReason) => void;
  /** A call whose id is of another time than Redis'. */
  skewed: () => void;
  /** A call refused because too many of its account or key are under way. */
  concurrencyRefused: () => void;
  batch: (operations: number) => void;
  redis: (seconds: number, isAnswered: boolean) => void;
  expired: (holds: number) => void;
  totals: (totals: HotTotals) => void;
  unpushed: (rows: number) => void;
  /** How long the recovery lock of a shard has been closed; undefined while it is open. */
  recoveryLock: (shard: number, closedMs: number | undefined) => void;
};

export function createMetrics(registry: Registry): Metrics {
  const level = (name: string, help: string) => gauge(registry, { name: `auth_quota_${name}`, help });
  const verdicts = counters(registry, {
    name: "auth_quota_verdicts_total",
    help: "Decisions on operations of relays, by operation and verdict.",
    labels: ["operation", "verdict"],
  });
  const countOf = rememberCounts((operation, verdict) => verdicts.of({ operation, verdict: verdictName(verdict) }));
  const conflicts = counters(registry, {
    name: "auth_quota_conflicts_total",
    help: "Operations rejected because their call id was reused with different content, and similar contradictions.",
    labels: ["operation", "reason"],
  });
  const skewed = counter(registry, {
    name: "auth_quota_skewed_calls_total",
    help: "Calls refused because the clocks of their relay and Redis differ by more than ten minutes.",
  });
  const tooMany = counter(registry, {
    name: "auth_quota_concurrency_refusals_total",
    help: "Calls refused because too many of their account or key are under way; verdict account_rate.",
  });
  const expired = counter(registry, {
    name: "auth_quota_expired_holds_total",
    help: "Holds ended because their relay went silent.",
  });
  const batches = histogram(registry, {
    name: "auth_quota_batch_operations",
    help: "Operations per batch received from a relay.",
    buckets: [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  });
  const redis = histograms(registry, {
    name: "auth_quota_redis_duration_seconds",
    help: "Duration of one run of quota.lua in Redis.",
    labels: ["outcome"],
    buckets: [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2],
  });
  const openHolds = level("open_holds", "Open holds over all accounts.");
  const outboxSize = level("outbox_size", "Charges not yet confirmed by the ledger.");
  const outboxOldest = level("outbox_oldest_seconds", "Age of the oldest charge not yet confirmed by the ledger.");
  const unpushed = level(
    "unpushed_rows",
    "Accounts and keys whose last change is not yet pushed to Redis; counted up to 500 each.",
  );
  const gateClosed = gauges(registry, {
    name: "auth_quota_gate_closed_seconds",
    help: "Time since the recovery lock of a shard closed because Redis lost data; 0 while calls are granted.",
    labels: ["shard"],
  });

  return {
    verdict: (operation, verdict) => countOf(operation, verdict).inc(),
    conflict: (operation, reason) => conflicts.inc({ operation, reason }),
    skewed: () => skewed.inc(),
    concurrencyRefused: () => tooMany.inc(),
    batch: (operations) => batches.observe(operations),
    redis: (seconds, isAnswered) => redis.observe({ outcome: isAnswered ? "answered" : "failed" }, seconds),
    expired: (holds) => expired.inc(holds),
    totals: (totals) => {
      openHolds.set(totals.openHolds);
      outboxSize.set(totals.outboxSize);
      outboxOldest.set(totals.outboxOldestMs / 1_000);
    },
    unpushed: (rows) => unpushed.set(rows),
    recoveryLock: (shard, closedMs) =>
      gateClosed.set({ shard: String(shard) }, closedMs === undefined ? 0 : Math.max(closedMs, 1) / 1_000),
  };
}

/** Remembers the counts of operations by verdict: they are changed several times for each call. */
function rememberCounts<C>(find: (operation: OperationName, verdict: Verdict) => C) {
  const counts = new Map<OperationName, C[]>();
  return (operation: OperationName, verdict: Verdict): C => {
    let byVerdict = counts.get(operation);
    if (!byVerdict) counts.set(operation, (byVerdict = []));
    return (byVerdict[verdict] ??= find(operation, verdict));
  };
}

/** Declares the gauge of the relay processes that are connected here. */
export function watchSessions(registry: Registry, read: () => number): void {
  gauge(registry, { name: "auth_quota_sessions", help: "Open session streams of relays to this process.", read });
}

/** Declares the gauge of the oldest move of an account between shards. */
export function watchMoves(registry: Registry, read: () => number): void {
  gauge(registry, {
    name: "auth_quota_oldest_move_seconds",
    help: "For how long the oldest move of an account to another shard has been under way; 0 without any.",
    read,
  });
}

/** Declares the gauge of the shards whose Redis answers this process. */
export function watchShards(registry: Registry, shards: readonly Pick<Shard, "index" | "isReady">[]): void {
  gauges(registry, {
    name: "auth_quota_shard_connected",
    help: "Whether this process is connected to the Redis of a shard of the hot money (1) or not (0).",
    labels: ["shard"],
    read: (set) => {
      for (const shard of shards) set({ shard: String(shard.index) }, shard.isReady() ? 1 : 0);
    },
  });
}
