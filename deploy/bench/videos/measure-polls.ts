import { setTimeout as wait } from "node:timers/promises";
import type { TasksDatabase } from "../../../services/video-task/testing/tasks-database.ts";
import { startMeter, type CpuReader, type Metered } from "../cpu-meter.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { readProcessUse, readTreeCpuUs } from "../process-use.ts";
import { spreadOf } from "../statistics.ts";
import { summarizeVariants, toWindow, type VariantWindow } from "../variants.ts";
import { auditRunning } from "./audit-tasks.ts";
import { pollLagBetween, pollLagQuantile, pollsOf, readPollLag } from "./poll-lag.ts";
import { startNaivePolls } from "./naive-polls.ts";
import { parkPolls, putRunning, spreadPolls, takeEndless } from "./running-tasks.ts";
import { openTasks, startService, startTaskWorld, type TaskWorld } from "./task-world.ts";

/** How long one pace is watched, after what warms up. */
type Pace = { pollMs: number; warmupMs: number; windowMs: number };

/** How much is measured: running tasks, at the usual pace and at one that nobody can keep. */
export type PollsSize = { tasks: number; defaultPace: Pace; flatOut: Pace };

const defaultSize: PollsSize = {
  tasks: 5_000,
  defaultPace: { pollMs: 5_000, warmupMs: 1_000, windowMs: 3_000 },
  flatOut: { pollMs: 10, warmupMs: 500, windowMs: 2_000 },
};

/** `lagSeconds`: how late polls began, where the service itself tells it. */
type PollsResult = { done: number; metered: Metered; lagSeconds?: { p50: number; p99: number } };
type World = TaskWorld & { database: TasksDatabase };
type PollVariant = { variant: string; pace: Pace; measure: (world: World, pace: Pace) => Promise<PollsResult> };

/**
 * Measures polls per second at tasks that never end, at the pace that the service has when nothing is set, and as fast
 * as it can; beside them a timer per task at the default pace. The variants take turns, in reverse order every other
 * round.
 */
export async function measurePolls({ rounds, say }: MoneyPlan, size = defaultSize): Promise<MoneyOutcome> {
  await using world = await startTaskWorld({ hasTruth: false });
  await using database = await openTasks(world);
  await putRunning(database.ownerUrl, await takeEndless(world.providerUrl, size.tasks));
  const variants = variantsOf(size);
  const windows: VariantWindow[] = [];
  const lags: { p50: number; p99: number }[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    say(`polls: round ${round} of ${rounds}`);
    for (const { variant, pace, measure } of round % 2 === 1 ? variants : variants.toReversed()) {
      await parkPolls(database.ownerUrl);
      const seen = await measure({ ...world, database }, pace);
      windows.push(toWindow(round, variant, seen.done, seen.metered));
      if (seen.lagSeconds && pace === size.defaultPace) lags.push(seen.lagSeconds);
    }
  }
  const lag = `polls every ${size.defaultPace.pollMs / 1_000} s begin late, in seconds:`;
  return {
    title: `Polls ${size.tasks.toLocaleString("en-US")} running tasks`,
    unit: "polls",
    windows,
    variants: summarizeVariants(inOrder(windows, variants), variants[0]?.variant ?? ""),
    bars: [],
    figures: [
      { what: `${lag} half of them up to`, measured: spreadOf(lags.map(({ p50 }) => p50)) },
      { what: `${lag} 99 of 100 up to`, measured: spreadOf(lags.map(({ p99 }) => p99)) },
    ],
    complaints: await auditRunning(database.ownerUrl, size.tasks),
  };
}

// No timers as fast as they can: all of them at once, each waits for all others, and hardly one poll ends in a window.
function variantsOf({ defaultPace, flatOut }: PollsSize): PollVariant[] {
  const every = `every ${defaultPace.pollMs / 1_000} s`;
  return [
    { variant: `a timer per task, ${every}`, pace: defaultPace, measure: pollNaively },
    { variant: `video-task, ${every}`, pace: defaultPace, measure: pollAsServed },
    { variant: "video-task, as fast as it can", pace: flatOut, measure: pollAsServed },
  ];
}

// Whichever round comes first, the table has the same order.
const inOrder = (windows: VariantWindow[], variants: PollVariant[]): VariantWindow[] =>
  variants.flatMap(({ variant }) => windows.filter((window) => window.variant === variant));

async function pollAsServed(world: World, { pollMs, warmupMs, windowMs }: Pace): Promise<PollsResult> {
  await using service = await startService(world, world.database, { POLL_INTERVAL_MS: String(pollMs) });
  await spreadPolls(world.database.ownerUrl, pollMs);
  await wait(warmupMs);
  const before = await readPollLag(service.opsUrl);
  const stop = startMeter(readersOf(world, service.pid));
  await wait(windowMs);
  const lag = pollLagBetween(before, await readPollLag(service.opsUrl));
  const metered = stop();
  const lagSeconds = { p50: pollLagQuantile(lag, 0.5), p99: pollLagQuantile(lag, 0.99) };
  return { done: pollsOf(lag), metered, lagSeconds };
}

async function pollNaively(world: World, { pollMs, warmupMs, windowMs }: Pace): Promise<PollsResult> {
  const place = { databaseUrl: world.database.url, providerUrl: world.providerUrl, pollMs };
  await using naive = await startNaivePolls(place);
  await wait(warmupMs);
  const before = naive.polls();
  const stop = startMeter(readersOf(world, process.pid));
  await wait(windowMs);
  return { done: naive.polls() - before, metered: stop() };
}

// In the naive way it is the bench itself that polls.
function readersOf({ postgres, provider }: World, pollingPid: number): Record<string, CpuReader> {
  return {
    "video-task": () => readProcessUse(pollingPid).cpuUs,
    PostgreSQL: () => readTreeCpuUs(postgres.pid),
    provider: () => readProcessUse(provider.pid).cpuUs,
  };
}
