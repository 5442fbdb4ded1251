import type { Bar } from "../bars.ts";
import { readProcessUse } from "../process-use.ts";
import { summarizeWays, toWindow, type WayWindow } from "../ways.ts";
import { startMeter } from "../cpu-meter.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { startHoldWorld, untilServing, type HoldWorld } from "./hold-world.ts";
import { operationsInFlight, runPairs, type Way } from "./pairs.ts";

const names = {
  naive: "one unary call per operation",
  single: "the stream, batches of 1",
  batched: "the stream, batches of 64",
} as const;

const minPairsPerSecond = 15_000;
const minTimesUnary = 5;
// The first windows also compile the code.
const warmupMs = 2_000;
const windowMs = 2_500;

/**
 * Measures pairs of Reserve and Settle per second, in three ways that take turns: the naive one, a unary call for each
 * operation, and the session stream in small and large batches. The same operations are in flight in each.
 */
export async function measureHolds({ rounds, say }: MoneyPlan): Promise<MoneyOutcome> {
  await using world = await startHoldWorld();
  const ways = waysOf(world);
  const [payer] = world.payers;
  if (payer) for (const { way } of ways) await untilServing(way.ask, payer);
  const tally = { settled: 0, refusals: new Map<string, number>() };
  const windows: WayWindow[] = [];
  for (const way of ways) await measureWindow(world, way, { round: 0, durationMs: warmupMs, tally });
  for (let round = 1; round <= rounds; round += 1) {
    say(`holds: round ${round} of ${rounds}`);
    for (const way of ways) windows.push(await measureWindow(world, way, { round, durationMs: windowMs, tally }));
  }
  const wrong = await world.audit(tally.settled);
  const refused = [...tally.refusals].map(([what, times]) => `${what} × ${times}`);
  const complaints = [...refused, ...(wrong === "" ? [] : [wrong])];
  return {
    title: `Reserve and Settle, ${operationsInFlight} operations in flight`,
    unit: "pairs",
    windows,
    ways: summarizeWays(windows, names.naive),
    bars: barsOf(windows),
    complaints,
  };
}

type NamedWay = { name: string; serverPid: number; way: Way };

function waysOf({ service, unary, payers, openLine, callUnary }: HoldWorld): NamedWay[] {
  return [
    { name: names.naive, serverPid: unary.pid, way: { ask: callUnary, perBatch: 1, payers } },
    { name: names.single, serverPid: service.pid, way: { ask: openLine("relay_single"), perBatch: 1, payers } },
    { name: names.batched, serverPid: service.pid, way: { ask: openLine("relay_batched"), perBatch: 64, payers } },
  ];
}

type Tally = { settled: number; refusals: Map<string, number> };
type WindowPlan = { round: number; durationMs: number; tally: Tally };

async function measureWindow(
  world: HoldWorld,
  { name, serverPid, way }: NamedWay,
  { round, durationMs, tally }: WindowPlan,
): Promise<WayWindow> {
  const stop = startMeter({
    "auth-quota": () => readProcessUse(serverPid).cpuUs,
    Redis: () => readProcessUse(world.redisPid).cpuUs,
    "relay stub": () => readProcessUse(process.pid).cpuUs,
  });
  const run = await runPairs(way, durationMs);
  const metered = stop();
  tally.settled += run.settled;
  for (const [what, times] of run.refusals) tally.refusals.set(what, (tally.refusals.get(what) ?? 0) + times);
  return toWindow(round, name, run.pairs, metered);
}

function barsOf(windows: WayWindow[]): Bar[] {
  const batched = summarizeWays(windows, names.naive).find(({ way }) => way === names.batched);
  if (!batched) return [];
  return [
    { what: "holds: pairs/s in batches of 64", least: minPairsPerSecond, measured: batched.perSecond },
    { what: "holds: batches of 64 to unary calls", least: minTimesUnary, measured: batched.timesNaive },
  ];
}
