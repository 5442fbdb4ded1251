import { cellLoads, commonLoads, comparedCells, gapsLoad, type Load } from "./loads.ts";
import type { Target } from "./targets.ts";
import type { World } from "./world.ts";

// A load of a new kind makes the engine throw away code that it had compiled for the kinds before: the next seconds of
// those cost a relay up to twice as much, until that is compiled for all of them.
const settlingMs = 2_000;

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

/** How many rounds, and how many there were before. */
export type RoundsPlan = { rounds: number; roundsBefore?: number };

/** Warms all targets up for their turns, then runs these round by round. */
export async function runRounds(world: World, title: string, turns: Turn[], plan: RoundsPlan): Promise<void> {
  const { recorder } = world;
  const { say } = world.plan;
  const { rounds, roundsBefore = 0 } = plan;
  say(`${title}: warming up`);
  for (const { load, target } of turns) await recorder.warm(load, target);
  for (const { load, target } of turns) await recorder.run(0, { ...load, windowMs: settlingMs }, target);
  for (let round = 1; round <= rounds; round += 1) {
    say(`${title}: round ${round} of ${rounds}`);
    for (const { load, target } of turns) await recorder.run(roundsBefore + round, load, target);
  }
}
