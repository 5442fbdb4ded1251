import { cellLoads, commonLoads, comparedCells, gapsLoad, type Load } from "./loads.ts";
import type { Target } from "./targets.ts";
import type { World } from "./world.ts";

const warmupMs = 500;
const firstWarmupMs = 2_500;

/** One window of a round. */
export type Turn = { load: Load; target: Target };

/**
 * Every common load on every target, neighbours in time where they are compared, and behind the streams of one dialect
 * those converted ones that are compared with them.
 */
export function commonTurns({ targets, relay }: World): Turn[] {
  return commonLoads.flatMap((load) => {
    const turns: Turn[] = targets.map((target) => ({ load, target }));
    const beside = relay && load.name === gapsLoad ? comparedCells.map((cell) => ({ load: cell, target: relay })) : [];
    return [...turns, ...beside];
  });
}

/** Every pair of dialects through the relay that is not measured yet. */
export function cellTurns({ relay, recorder }: World): Turn[] {
  const known = new Set(recorder.measured.map(({ load }) => load));
  return relay ? cellLoads.filter(({ name }) => !known.has(name)).map((load) => ({ load, target: relay })) : [];
}

/** How many rounds, and how many there were before, whose code is warm already. */
export type RoundsPlan = { rounds: number; roundsBefore?: number };

/** Runs all turns once until their code is compiled, then round by round. */
export async function runRounds(world: World, title: string, turns: Turn[], plan: RoundsPlan): Promise<void> {
  const { recorder } = world;
  const { say } = world.plan;
  const { rounds, roundsBefore = 0 } = plan;
  if (roundsBefore === 0) await warmUp(world, title, turns);
  for (let round = 1; round <= rounds; round += 1) {
    say(`${title}: round ${round} of ${rounds}`);
    for (const { load, target } of turns) await recorder.run(roundsBefore + round, load, target);
  }
}

// The first load also runs until the code of a target is compiled; later ones only where they take another path.
async function warmUp({ recorder, plan }: World, title: string, turns: Turn[]): Promise<void> {
  plan.say(`${title}: warming up`);
  const warmed = new Set<string>();
  for (const { load, target } of turns) {
    const { kind, bytes, client, upstream } = load;
    const path = [target.name, kind, bytes, client, upstream].join(" ");
    if (warmed.has(path)) continue;
    const windowMs = warmed.has(target.name) ? warmupMs : firstWarmupMs;
    warmed.add(path).add(target.name);
    await recorder.run(0, { ...load, warmupMs: 0, windowMs }, target);
  }
}
