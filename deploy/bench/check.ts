import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { compare, isFailure, renderFindings, toBaseline, type Baseline, type Finding } from "./baseline.ts";
import { othersOf } from "./figures.ts";
import { cellLoads, commonLoads } from "./loads.ts";
import { ratios, spreadOfRatio, type Ratio } from "./ratios.ts";
import { runRounds, type Turn } from "./rounds.ts";
import type { Spread } from "./statistics.ts";
import { formatSpread } from "./table.ts";
import { measureSystemOnce, systemLoad } from "./system.ts";
import { auditWorld, startWorld, type World, type WorldPlan } from "./world.ts";

const baselineFile = join(import.meta.dirname, "baseline.json");
const guarded = ratios.filter(({ isGuarded }) => isGuarded);

/** What the check came to. */
export type CheckOutcome = { findings: Finding[]; complaints: string[] };

/** Measures the guarded ratios and writes them as the baseline. */
export async function writeBaseline(plan: WorldPlan): Promise<void> {
  await using world = await startWorld(plan);
  await measureGuarded(world, plan.rounds, 0);
  const complaints = await complaintsOf(world);
  if (complaints.length > 0) throw new Error(complaints.join("\n"));
  const baseline = toBaseline(spreadsOf(world));
  plan.say(renderOthers(world));
  await writeFile(baselineFile, `${JSON.stringify(baseline, null, 2)}\n`);
  plan.say(`written to ${baselineFile}`);
}

/**
 * Holds the guarded ratios against the committed baseline. What looks worse is measured for as many rounds again, and
 * the median of all of them decides.
 */
export async function checkBaseline(plan: WorldPlan): Promise<CheckOutcome> {
  const { say, rounds } = plan;
  const baseline = JSON.parse(await readFile(baselineFile, "utf8")) as Baseline;
  await using world = await startWorld(plan);
  await measureGuarded(world, rounds, 0);
  let findings = compare(baseline, spreadsOf(world));
  if (findings.some(({ verdict }) => verdict === "worse")) {
    say("some ratios look worse; as many rounds again");
    await measureGuarded(world, rounds, rounds);
    findings = compare(baseline, spreadsOf(world));
  }
  const complaints = await complaintsOf(world);
  say(`\n${renderFindings(findings)}\n\n${renderOthers(world)}`);
  for (const complaint of complaints) say(`!!! ${complaint}`);
  if (findings.some(isFailure) || complaints.length > 0) process.exitCode = 1;
  return { findings, complaints };
}

async function measureGuarded(world: World, rounds: number, roundsBefore: number): Promise<void> {
  const turns = turnsOf(world, guarded);
  const { recorder, relay } = world;
  await runRounds(world, "guarded ratios", turns, { rounds, roundsBefore });
  if (!relay || !guarded.some(({ of }) => of.load === systemLoad.name)) return;
  for (let round = 1; round <= rounds; round += 1) await measureSystemOnce(recorder, relay, roundsBefore + round);
}

/** The windows that these ratios need, those of one load side by side. */
function turnsOf({ targets }: World, wanted: Ratio[]): Turn[] {
  const places = wanted.flatMap(({ of, to }) => [of, ...(to ? [to] : [])]);
  return [...commonLoads, ...cellLoads].flatMap((load) =>
    targets
      .filter(({ name }) => places.some((place) => place.load === load.name && place.target === name))
      .map((target) => ({ load, target })),
  );
}

function spreadsOf({ recorder }: World): Map<string, Spread> {
  return new Map(guarded.map((ratio) => [ratio.what, spreadOfRatio(ratio, recorder.measured)]));
}

async function complaintsOf(world: World): Promise<string[]> {
  const audit = await auditWorld(world);
  return [...world.recorder.complaints, ...(audit?.isRight === false ? [`the ledger is wrong: ${audit.finding}`] : [])];
}

function renderOthers({ recorder }: World): string {
  return `used by others on the measured core, in percent of it: ${formatSpread(othersOf(recorder.measured))}`;
}
