import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { median } from "../statistics.ts";
import { meterCalls, sumOf, type CpuByProcess } from "../system.ts";
import { formatFigure, renderTable } from "../table.ts";
import { startWorld, type WorldPlan } from "../world.ts";
import { renderCapacity } from "./capacity.ts";
import { dimensions, type Dimension, type Site } from "./dimensions.ts";
import { renderPlot } from "./plot.ts";

const plotsFolder = join(import.meta.dirname, "../plots");
const maxRounds = 2;

/** Medians of CPU per call at one size of one dimension. */
export type ScalePoint = { dimension: string; size: number; cpu: CpuByProcess; whole: number };

/** Grows one thing after the other, writes a plot of each, and prints tables and the arithmetic to 100,000 calls/s. */
export async function measureScale(plan: WorldPlan): Promise<ScalePoint[]> {
  const { say } = plan;
  if (!plan.hasRelay) throw new Error("scale is measured of the relay");
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "scale-bench-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  const world = resources.use(await startWorld({ ...plan, hasPortkey: false, hasProxies: false }));
  const { relay, recorder } = world;
  if (!relay) throw new Error("there is no relay");
  const site: Site = { world, relay, folder };
  const points: ScalePoint[] = [];
  await mkdir(plotsFolder, { recursive: true });
  for (const dimension of dimensions) {
    for (const size of dimension.sizes) {
      say(`${dimension.name}: ${size}`);
      points.push(await measurePoint(site, dimension, size));
    }
    await writeFile(join(plotsFolder, `${dimension.name}.svg`), plotOf(dimension, points));
  }
  const audit = await relay.ledger.audit(recorder.chargedCalls);
  for (const dimension of dimensions) say(`\n${tableOf(dimension, points)}`);
  const usual = points.find(({ dimension, size }) => dimension === "connections" && size === 64);
  if (usual) say(`\n${renderCapacity(usual.cpu)}`);
  say(`\nledger: ${audit.isRight ? "right" : "!!! WRONG"}: ${audit.finding}`);
  for (const complaint of recorder.complaints) say(`!!! ${complaint}`);
  if (!audit.isRight || recorder.complaints.length > 0) process.exitCode = 1;
  return points;
}

async function measurePoint(site: Site, dimension: Dimension, size: number): Promise<ScalePoint> {
  const { world, relay } = site;
  const { load, finish } = await dimension.prepare(site, size);
  const named = { ...load, name: `${dimension.name} ${size}` };
  const rounds: CpuByProcess[] = [];
  await world.recorder.warm(named, relay);
  await world.recorder.run(0, { ...named, warmupMs: 0, windowMs: 500 }, relay);
  for (let round = 1; round <= Math.min(maxRounds, world.plan.rounds); round += 1) {
    rounds.push(await meterCalls(world.recorder, relay, { round, load: named }));
  }
  await finish?.();
  const names = Object.keys(rounds[0] ?? {});
  const cpu = Object.fromEntries(names.map((name) => [name, median(rounds.map((one) => one[name] ?? Number.NaN))]));
  return { dimension: dimension.name, size, cpu, whole: sumOf(cpu) };
}

function ownPoints({ name }: Dimension, points: ScalePoint[]): ScalePoint[] {
  return points.filter(({ dimension }) => dimension === name);
}

function plotOf(dimension: Dimension, points: ScalePoint[]): string {
  const own = ownPoints(dimension, points);
  return renderPlot({
    title: `CPU per call by ${dimension.name}`,
    axis: dimension.axis,
    unit: "µs",
    marks: own.map(({ size }) => size.toLocaleString("en-US")),
    lines: [
      { name: "relay", values: own.map(({ cpu }) => cpu["relay"] ?? Number.NaN) },
      { name: "whole system", values: own.map(({ whole }) => whole) },
    ],
  });
}

function tableOf(dimension: Dimension, points: ScalePoint[]): string {
  const own = ownPoints(dimension, points);
  const names = Object.keys(own[0]?.cpu ?? {});
  const rows = own.map(({ size, cpu, whole }) => [
    size.toLocaleString("en-US"),
    ...names.map((name) => formatFigure(cpu[name] ?? Number.NaN)),
    formatFigure(whole),
  ]);
  return renderTable([dimension.axis, ...names.map((name) => `CPU µs, ${name}`), "whole system"], rows);
}
