import { existsSync } from "node:fs";
import type { LoadReport } from "./load-plan.ts";
import { smallLoad, type Load } from "./loads.ts";
import type { Measured } from "./measured.ts";
import { setPrecedence } from "./precedence.ts";
import type { Target } from "./targets.ts";
import type { World } from "./world.ts";

const windowMs = 2_500;
const connections = 256;

export const halfLoad = "1 KB at half of the slowest's saturation";
const peerLoad = "1 KB at half of Portkey's saturation";

/** Latency that each target adds to the upstream's own, at a rate that all of them carry. */
export async function measureLatency(world: World, rounds: number): Promise<void> {
  const { targets, direct, recorder } = world;
  for (const target of [direct, ...targets]) await recorder.warm(smallLoad, target);
  const saturation = new Map<Target, number>();
  for (const target of targets) {
    const { calls, windowUs } = await recorder.run(0, { ...smallLoad, windowMs: 1_500 }, target);
    saturation.set(target, calls / (windowUs / 1_000_000));
  }
  try {
    await measureAdded(world, rounds, saturation);
  } finally {
    putBack(world);
  }
}

async function measureAdded(world: World, rounds: number, saturation: ReadonlyMap<Target, number>): Promise<void> {
  const { targets, plan } = world;
  const isFirst = orderCore(world);
  if (!isFirst) putBack(world);
  plan.say(
    isFirst ? "on core 1 callers and upstream go first, billing and its stores last" : "NOT ORDERED: needs root",
  );
  const own = targets.filter(({ name }) => name !== "portkey");
  const groups = [{ name: halfLoad, compared: own }];
  if (own.length < targets.length) groups.push({ name: peerLoad, compared: targets });
  for (const { name, compared } of groups) {
    const callsPerSecond = halfOf(compared.map((target) => saturation.get(target) ?? Number.NaN));
    plan.say(`latency at ${callsPerSecond} calls/s: ${rounds} rounds`);
    const load: Load = { ...smallLoad, name, callsPerSecond, connections, windowMs, isFirst };
    for (let round = 1; round <= rounds; round += 1) await measureRound(world, round, load, compared);
  }
}

/**
 * In production callers, upstreams, ledger and stream have machines of their own. Here they share a core with what a
 * call waits for: callers and the upstream go first there, and last what no caller waits for, for all targets alike.
 */
function orderCore({ direct, relay }: World): boolean {
  if (!setPrecedence([direct.pid], "first")) return false;
  // Connections to PostgreSQL end at any time: what is gone needs no place.
  return (relay?.lagging() ?? []).every((pid) => setPrecedence([pid], "last") || !existsSync(`/proc/${pid}`));
}

function putBack({ direct, relay }: World): void {
  setPrecedence([direct.pid, ...(relay?.lagging() ?? [])], "asUsual");
}

/** Half of the least, in whole calls a second. */
export function halfOf(saturations: number[]): number {
  return Math.max(1, Math.floor(Math.min(...saturations) / 2));
}

async function measureRound(world: World, round: number, load: Load, compared: Target[]): Promise<void> {
  const { recorder, direct } = world;
  const alone = await recorder.run(round, load, direct);
  for (const target of compared) {
    // Connections to PostgreSQL that came meanwhile are processes that nobody has put anywhere.
    if (load.isFirst) orderCore(world);
    const through = await recorder.run(round, load, target);
    recorder.add(addedLatency({ round, load: load.name, target: target.name }, through, alone));
  }
}

/** What a proxy adds, in the quantiles of two windows. */
export function addedLatency(
  place: Pick<Measured, "round" | "load" | "target">,
  through: Pick<LoadReport, "callUs">,
  alone: Pick<LoadReport, "callUs">,
): Measured[] {
  return (["p50", "p99"] as const).map((share) => ({
    ...place,
    figure: `added ${share} ms`,
    value: (through.callUs[share] - alone.callUs[share]) / 1_000,
  }));
}
