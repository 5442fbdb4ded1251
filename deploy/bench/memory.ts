import { idleLoad, smallLoad } from "./loads.ts";
import type { LoadReport } from "./load-plan.ts";
import type { Measured } from "./measured.ts";
import type { Target, TargetName } from "./targets.ts";
import type { World } from "./world.ts";

export const someStreams = "1,000 open streams";
export const manyStreams = "10,000 open streams";
const steps = [
  { name: someStreams, streams: 1_000 },
  { name: manyStreams, streams: 10_000 },
];

// So few that they leave no memory behind that streams could then take, and would seem to need less for it.
const firstCalls = { connections: 16, callsPerSecond: 100, windowMs: 1_000 };

/** Memory of processes that have just been started, with streams open that say nothing. */
export async function measureMemory(world: World, rounds: number): Promise<void> {
  const { targets, maxStreams, plan } = world;
  const reachable = steps.map(({ streams }) => Math.min(streams, maxStreams));
  if (maxStreams < 10_000) plan.say(`this machine allows files for ${maxStreams} streams only`);
  for (let round = 1; round <= rounds; round += 1) {
    plan.say(`open streams: round ${round} of ${rounds}`);
    for (const { name } of targets) await measureOne(world, round, name, reachable);
  }
}

async function measureOne(world: World, round: number, name: TargetName, openSteps: number[]): Promise<void> {
  const { recorder } = world;
  await using target: Target & AsyncDisposable = await world.startFresh(name);
  await recorder.run(0, { ...smallLoad, ...firstCalls }, target);
  // The peer takes minutes for ten thousand; only the first step is compared with it.
  const wanted = name === "portkey" ? openSteps.slice(0, 1) : openSteps;
  const report = await recorder.run(0, idleLoad("open streams", wanted), target);
  recorder.add(memoryFigures(round, name, report.open));
}

/** Memory at each step, and what a stream takes of it. */
export function memoryFigures(round: number, target: TargetName, open: LoadReport["open"]): Measured[] {
  const [none, ...seen] = open;
  if (!none) return [];
  return seen.flatMap(({ streams, residentMb }, index) => {
    const place = { round, target, load: steps[index]?.name ?? "" };
    return [
      { ...place, figure: "streams", value: streams },
      { ...place, figure: "RSS MB before", value: none.residentMb },
      { ...place, figure: "RSS MB", value: residentMb },
      { ...place, figure: "RSS KB per stream", value: ((residentMb - none.residentMb) * 1_024) / streams },
    ];
  });
}
