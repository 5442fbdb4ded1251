import type { Outcome } from "./simulate.ts";

/** What many runs came to. */
export type Totals = {
  seeds: number;
  events: number;
  calls: number;
  served: number;
  whole: number;
  /** Calls that were admitted within leases. */
  leased: number;
  recalled: number;
  virtualMs: number;
  elapsedMs: number;
  /** Worst balance below zero in worlds whose Redis lost nothing, and in those whose Redis lost something. */
  worst: { kept: string; lost: string };
  /** Price of what was served and is not charged: relays that were lost while they served. */
  lostNanos: string;
  /** Worlds in which holds were left that only the sweep of forgotten holds ended. */
  forgotten: number;
  profiles: Record<string, number>;
  faults: Record<string, number>;
  failures: { seed: number; violation: string }[];
};

export function emptyTotals(): Totals {
  return {
    seeds: 0,
    events: 0,
    calls: 0,
    served: 0,
    whole: 0,
    leased: 0,
    recalled: 0,
    virtualMs: 0,
    elapsedMs: 0,
    worst: { kept: "0", lost: "0" },
    lostNanos: "0",
    forgotten: 0,
    profiles: {},
    faults: {},
    failures: [],
  };
}

const larger = (one: string, other: bigint | string): string => (BigInt(other) > BigInt(one) ? String(other) : one);

function addCounts(sums: Record<string, number>, more: Record<string, number>): Record<string, number> {
  const added = { ...sums };
  for (const [name, count] of Object.entries(more)) added[name] = (added[name] ?? 0) + count;
  return added;
}

/** Adds one run. */
export function addTotals(totals: Totals, outcome: Outcome): Totals {
  const { kept, lost } = totals.worst;
  const { overspendNanos, hasLost } = outcome;
  const [violation] = outcome.violations;
  return {
    seeds: totals.seeds + 1,
    events: totals.events + outcome.events,
    calls: totals.calls + outcome.calls,
    served: totals.served + outcome.served,
    whole: totals.whole + outcome.whole,
    leased: totals.leased + outcome.leased,
    recalled: totals.recalled + outcome.recalled,
    virtualMs: totals.virtualMs + outcome.virtualMs,
    elapsedMs: totals.elapsedMs,
    worst: hasLost ? { kept, lost: larger(lost, overspendNanos) } : { kept: larger(kept, overspendNanos), lost },
    lostNanos: String(BigInt(totals.lostNanos) + outcome.lostNanos),
    forgotten: totals.forgotten + (outcome.hasForgotten ? 1 : 0),
    profiles: addCounts(totals.profiles, { [outcome.profile]: 1 }),
    faults: addCounts(totals.faults, outcome.counts),
    failures: violation === undefined ? totals.failures : [...totals.failures, { seed: outcome.seed, violation }],
  };
}

/** Adds what several workers found. */
export function joinTotals(one: Totals, other: Totals): Totals {
  return {
    seeds: one.seeds + other.seeds,
    events: one.events + other.events,
    calls: one.calls + other.calls,
    served: one.served + other.served,
    whole: one.whole + other.whole,
    leased: one.leased + other.leased,
    recalled: one.recalled + other.recalled,
    virtualMs: one.virtualMs + other.virtualMs,
    elapsedMs: Math.max(one.elapsedMs, other.elapsedMs),
    worst: { kept: larger(one.worst.kept, other.worst.kept), lost: larger(one.worst.lost, other.worst.lost) },
    lostNanos: String(BigInt(one.lostNanos) + BigInt(other.lostNanos)),
    forgotten: one.forgotten + other.forgotten,
    profiles: addCounts(one.profiles, other.profiles),
    faults: addCounts(one.faults, other.faults),
    failures: [...one.failures, ...other.failures],
  };
}

const usd = (nanos: string): string => (Number(nanos) / 1e9).toFixed(6);
const counts = (sums: Record<string, number>): string =>
  Object.entries(sums)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");

/** For people: what was run, what came out, and how to see each failure again. */
export function report(totals: Totals): string {
  const perSecond = totals.elapsedMs > 0 ? ` (${((totals.seeds * 1_000) / totals.elapsedMs).toFixed(0)} seeds/s)` : "";
  const hours = totals.virtualMs / 3_600_000;
  const lines = [
    `${totals.seeds} seeds${perSecond}, ${totals.events} events, ${hours.toFixed(1)} virtual hours`,
    `${totals.calls} calls, ${totals.served} served, ${totals.whole} to their end`,
    `${totals.leased} calls within leases; ${totals.recalled} leases asked back`,
    `worst balance: ${usd(totals.worst.kept)} USD below zero; where Redis lost data ${usd(totals.worst.lost)} USD`,
    `served by relays that were lost, and not charged: ${usd(totals.lostNanos)} USD`,
    `worlds with holds that only the sweep of forgotten ones ended: ${totals.forgotten}`,
    `profiles: ${counts(totals.profiles)}`,
    `faults: ${counts(totals.faults)}`,
    `${totals.failures.length} failures`,
  ];
  for (const { seed, violation } of totals.failures.slice(0, 20)) {
    lines.push(`  ${violation}`, `    node deploy/test/simulation/main.ts --seed ${seed} --trace`);
  }
  return lines.join("\n");
}
