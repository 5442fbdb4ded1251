import { barsOf } from "./ratios.ts";
import { renderBars, type Bar } from "./bars.ts";
import { othersOf } from "./figures.ts";
import { measureFloor } from "./floor.ts";
import { measureLatency } from "./latency.ts";
import type { Audit } from "./ledger.ts";
import { renderMeasured, type Measured } from "./measured.ts";
import { measureMemory } from "./memory.ts";
import { cellTurns, commonTurns, runRounds } from "./rounds.ts";
import { measureSystem } from "./system.ts";
import { formatSpread } from "./table.ts";
import { auditWorld, startWorld, type World, type WorldPlan } from "./world.ts";

/** What is measured of the proxies, in this order. */
export const httpSections = ["loads", "conversions", "floor", "latency", "system", "memory"] as const;
export type HttpSection = (typeof httpSections)[number];

const measures: Record<HttpSection, (world: World, rounds: number) => Promise<void>> = {
  loads: (world, rounds) => runRounds(world, "loads", commonTurns(world), { rounds }),
  // One round: there are many pairs, and those that are held to bars are measured with the loads.
  conversions: (world) => runRounds(world, "conversions", cellTurns(world), { rounds: 1 }),
  floor: measureFloor,
  latency: measureLatency,
  system: measureSystem,
  // One round: memory differs little from run to run, and ten thousand streams take their time.
  memory: (world) => measureMemory(world, 1),
};

/** What was seen of the proxies, and of the ledger behind the relay. */
export type HttpOutcome = {
  isPinned: boolean;
  measured: Measured[];
  bars: Bar[];
  audit: Audit | undefined;
  complaints: string[];
};

/** Measures the sections, prints what was found, and makes the process fail on errors of calls and wrong books. */
export async function measureHttp(plan: WorldPlan, sections: readonly HttpSection[]): Promise<HttpOutcome> {
  const { say, rounds } = plan;
  await using world = await startWorld(plan);
  for (const section of sections) await measures[section](world, rounds);
  const audit = await auditWorld(world);
  const { measured, complaints } = world.recorder;
  const bars = barsOf(measured);
  say(`\nMedian (least…greatest) of ${rounds} rounds; ratios are medians of the ratios within a round.\n`);
  say(renderMeasured(measured));
  if (bars.length > 0) say(`\n${renderBars(bars)}`);
  say(`\nused by others on the measured core, in percent of it: ${formatSpread(othersOf(measured))}`);
  if (audit) say(`\nledger: ${audit.isRight ? "right" : "!!! WRONG"}: ${audit.finding}`);
  if (complaints.length > 0) {
    say(`\n!!! THIS RUN HAD ERRORS; its figures are not to be trusted:\n  ${complaints.join("\n  ")}`);
    say(`Of which the services said last:\n  ${world.relay?.troubles().join("\n  ") ?? "nothing"}`);
  }
  if (complaints.length > 0 || audit?.isRight === false) process.exitCode = 1;
  return { isPinned: world.isPinned, measured, bars, audit, complaints };
}
