import type { Registry } from "prom-client";
import { gauges } from "#shared/metrics/metrics.ts";

const shownAccounts = 10;
// A flood of accounts that fail once must not grow this process; who fails most is among the first to come.
const countedPairs = 2_000;
const windowMs = 300_000;

type Failing = { account: string; outcome: string };
type Counts = Map<string, Failing & { calls: number }>;

const notFailed = new Set(["ok", "client_gone", "draining"]);

/**
 * Declares a gauge of the ten accounts with most failed calls, by outcome, in the last five to ten minutes; gives what
 * counts a call.
 */
export function createFailingAccounts(registry: Registry, nowMs: () => number = () => performance.now()) {
  let counts: Counts = new Map();
  let before: Counts = new Map();
  let beganMs = nowMs();
  const turn = (): void => {
    const windows = Math.floor((nowMs() - beganMs) / windowMs);
    if (windows < 1) return;
    before = windows === 1 ? counts : new Map();
    counts = new Map();
    beganMs += windows * windowMs;
  };
  gauges(registry, {
    name: "relay_failing_account_calls",
    help: "Failed calls with a hold in the last five to ten minutes, of the ten accounts with most of them.",
    labels: ["account", "outcome"],
    unboundedLabels: ["account"],
    maxSeries: shownAccounts,
    read: (set) => {
      turn();
      for (const { account, outcome, calls } of topOf(before, counts)) set({ account, outcome }, calls);
    },
  });
  return (account: string, outcome: string): void => {
    if (notFailed.has(outcome)) return;
    turn();
    const pair = `${account} ${outcome}`;
    const known = counts.get(pair);
    if (known) known.calls += 1;
    else if (counts.size < countedPairs) counts.set(pair, { account, outcome, calls: 1 });
  };
}

function topOf(...windows: Counts[]): (Failing & { calls: number })[] {
  const sums: Counts = new Map();
  for (const [pair, found] of windows.flatMap((window) => [...window])) {
    sums.set(pair, { ...found, calls: found.calls + (sums.get(pair)?.calls ?? 0) });
  }
  return [...sums.values()].toSorted((one, other) => other.calls - one.calls).slice(0, shownAccounts);
}
