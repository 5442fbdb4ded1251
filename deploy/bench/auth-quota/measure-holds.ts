import type { Bar } from "../bars.ts";
import { readProcessUse } from "../process-use.ts";
import { summarizeVariants, toWindow, type VariantWindow } from "../variants.ts";
import { startMeter } from "../cpu-meter.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { startHoldWorld, untilServing, type HoldWorld } from "./hold-world.ts";
import { operationsInFlight, runPairs, type Variant } from "./pairs.ts";

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
 * Measures pairs of Reserve and Settle per second, in three variants that take turns: the naive one with a unary call
 * per operation, and the session stream in small and large batches. The same operations are in flight in each.
 */
export async function measureHolds({ rounds, say }: MoneyPlan): Promise<MoneyOutcome> {
  await using world = await startHoldWorld();
  const variants = variantsOf(world);
  const [payer] = world.payers;
  if (payer) for (const { variant } of variants) await untilServing(variant.ask, payer);
  const tally = { settled: 0, refusals: new Map<string, number>() };
  const windows: VariantWindow[] = [];
  for (const variant of variants) await measureWindow(world, variant, { round: 0, durationMs: warmupMs, tally });
  for (let round = 1; round <= rounds; round += 1) {
    say(`holds: round ${round} of ${rounds}`);
    for (const variant of variants)
      windows.push(await measureWindow(world, variant, { round, durationMs: windowMs, tally }));
  }
  const wrong = await world.audit(tally.settled);
  const refused = [...tally.refusals].map(([what, times]) => `${what} × ${times}`);
  const complaints = [...refused, ...(wrong === "" ? [] : [wrong])];
  return {
    title: `Reserve and Settle, ${operationsInFlight} operations in flight`,
    unit: "pairs",
    windows,
    variants: summarizeVariants(windows, names.naive),
    bars: barsOf(windows),
    complaints,
  };
}

type NamedVariant = { name: string; serverPid: number; variant: Variant };

function variantsOf({ service, unary, payers, openLine, callUnary }: HoldWorld): NamedVariant[] {
  return [
    { name: names.naive, serverPid: unary.pid, variant: { ask: callUnary, perBatch: 1, payers } },
    { name: names.single, serverPid: service.pid, variant: { ask: openLine("relay_single"), perBatch: 1, payers } },
    { name: names.batched, serverPid: service.pid, variant: { ask: openLine("relay_batched"), perBatch: 64, payers } },
  ];
}

type Tally = { settled: number; refusals: Map<string, number> };
type WindowPlan = { round: number; durationMs: number; tally: Tally };

async function measureWindow(
  world: HoldWorld,
  { name, serverPid, variant }: NamedVariant,
  { round, durationMs, tally }: WindowPlan,
): Promise<VariantWindow> {
  const stop = startMeter({
    "auth-quota": () => readProcessUse(serverPid).cpuUs,
    Redis: () => world.redisPids.reduce((sum, pid) => sum + readProcessUse(pid).cpuUs, 0),
    "relay stub": () => readProcessUse(process.pid).cpuUs,
  });
  const run = await runPairs(variant, durationMs);
  const metered = stop();
  tally.settled += run.settled;
  for (const [what, times] of run.refusals) tally.refusals.set(what, (tally.refusals.get(what) ?? 0) + times);
  return toWindow(round, name, run.pairs, metered);
}

function barsOf(windows: VariantWindow[]): Bar[] {
  const batched = summarizeVariants(windows, names.naive).find(({ variant }) => variant === names.batched);
  if (!batched) return [];
  return [
    { what: "holds: pairs/s in batches of 64", min: minPairsPerSecond, measured: batched.perSecond },
    { what: "holds: batches of 64 to unary calls", min: minTimesUnary, measured: batched.timesNaive },
  ];
}
