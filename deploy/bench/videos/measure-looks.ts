import { setTimeout as wait } from "node:timers/promises";
import type { TasksDatabase } from "../../../services/video-task/testing/tasks-database.ts";
import { startMeter, type CpuReader, type Metered } from "../cpu-meter.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { readProcessUse, readTreeCpuUs } from "../process-use.ts";
import { spreadOf } from "../statistics.ts";
import { summarizeWays, toWindow, type WayWindow } from "../ways.ts";
import { auditRunning } from "./audit-tasks.ts";
import { lookLagBetween, lookLagQuantile, looksOf, readLookLag } from "./look-lag.ts";
import { startNaiveLooks } from "./naive-looks.ts";
import { parkLooks, putRunning, spreadLooks, takeEndless } from "./running-tasks.ts";
import { openTasks, startService, startTaskWorld, type TaskWorld } from "./task-world.ts";

/** How long one pace is watched, after what warms up. */
type Pace = { lookMs: number; warmupMs: number; windowMs: number };

/** How much is measured: running tasks, at the usual pace and at one that nobody can keep. */
export type LooksSize = { tasks: number; usual: Pace; flatOut: Pace };

const usualSize: LooksSize = {
  tasks: 5_000,
  usual: { lookMs: 5_000, warmupMs: 1_000, windowMs: 3_000 },
  flatOut: { lookMs: 10, warmupMs: 500, windowMs: 2_000 },
};

/** `lagSeconds`: how late looks began, where the service itself tells it. */
type Seen = { done: number; metered: Metered; lagSeconds?: { p50: number; p99: number } };
type World = TaskWorld & { database: TasksDatabase };
type Way = { way: string; pace: Pace; measure: (world: World, pace: Pace) => Promise<Seen> };

/**
 * Measures looks per second at tasks that never end, at the pace that the service has when nothing is set, and as fast
 * as it can; beside them a timer per task at the usual pace. The ways take turns, in the other order every other round.
 */
export async function measureLooks({ rounds, say }: MoneyPlan, size = usualSize): Promise<MoneyOutcome> {
  await using world = await startTaskWorld({ hasTruth: false });
  await using database = await openTasks(world);
  await putRunning(database.ownerUrl, await takeEndless(world.providerUrl, size.tasks));
  const ways = waysOf(size);
  const windows: WayWindow[] = [];
  const lags: { p50: number; p99: number }[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    say(`looks: round ${round} of ${rounds}`);
    for (const { way, pace, measure } of round % 2 === 1 ? ways : ways.toReversed()) {
      await parkLooks(database.ownerUrl);
      const seen = await measure({ ...world, database }, pace);
      windows.push(toWindow(round, way, seen.done, seen.metered));
      if (seen.lagSeconds && pace === size.usual) lags.push(seen.lagSeconds);
    }
  }
  const lag = `looks every ${size.usual.lookMs / 1_000} s begin late, in seconds:`;
  return {
    title: `Looks at ${size.tasks.toLocaleString("en-US")} running tasks`,
    unit: "looks",
    windows,
    ways: summarizeWays(inOrder(windows, ways), ways[0]?.way ?? ""),
    bars: [],
    figures: [
      { what: `${lag} half of them up to`, measured: spreadOf(lags.map(({ p50 }) => p50)) },
      { what: `${lag} 99 of 100 up to`, measured: spreadOf(lags.map(({ p99 }) => p99)) },
    ],
    complaints: await auditRunning(database.ownerUrl, size.tasks),
  };
}

// No timers as fast as they can: all of them at once, each waits for all others, and hardly one look ends in a window.
function waysOf({ usual, flatOut }: LooksSize): Way[] {
  const every = `every ${usual.lookMs / 1_000} s`;
  return [
    { way: `a timer per task, ${every}`, pace: usual, measure: lookNaively },
    { way: `video-task, ${every}`, pace: usual, measure: lookAsServed },
    { way: "video-task, as fast as it can", pace: flatOut, measure: lookAsServed },
  ];
}

// Whichever round comes first, the table has the same order.
const inOrder = (windows: WayWindow[], ways: Way[]): WayWindow[] =>
  ways.flatMap(({ way }) => windows.filter((window) => window.way === way));

async function lookAsServed(world: World, { lookMs, warmupMs, windowMs }: Pace): Promise<Seen> {
  await using service = await startService(world, world.database, { LOOK_MS: String(lookMs) });
  await spreadLooks(world.database.ownerUrl, lookMs);
  await wait(warmupMs);
  const before = await readLookLag(service.opsUrl);
  const stop = startMeter(readersOf(world, service.pid));
  await wait(windowMs);
  const lag = lookLagBetween(before, await readLookLag(service.opsUrl));
  const metered = stop();
  const lagSeconds = { p50: lookLagQuantile(lag, 0.5), p99: lookLagQuantile(lag, 0.99) };
  return { done: looksOf(lag), metered, lagSeconds };
}

async function lookNaively(world: World, { lookMs, warmupMs, windowMs }: Pace): Promise<Seen> {
  const place = { databaseUrl: world.database.url, providerUrl: world.providerUrl, lookMs };
  await using naive = await startNaiveLooks(place);
  await wait(warmupMs);
  const before = naive.looks();
  const stop = startMeter(readersOf(world, process.pid));
  await wait(windowMs);
  return { done: naive.looks() - before, metered: stop() };
}

// In the naive way it is the bench itself that looks.
function readersOf({ postgres, provider }: World, lookingPid: number): Record<string, CpuReader> {
  return {
    "video-task": () => readProcessUse(lookingPid).cpuUs,
    PostgreSQL: () => readTreeCpuUs(postgres.pid),
    provider: () => readProcessUse(provider.pid).cpuUs,
  };
}
