import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { until } from "#shared/testing/until.ts";
import type { TasksDatabase } from "../../../services/video-task/testing/tasks-database.ts";
import { startMeter, type CpuReader, type Metered } from "../cpu-meter.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { readProcessUse, readTreeCpuUs } from "../process-use.ts";
import { summarizeVariants, toWindow, type VariantWindow } from "../variants.ts";
import { auditLedger, auditProvider, auditTasks } from "./audit-tasks.ts";
import { submitTasks, submissionsInFlight, type Submissions } from "./submit-tasks.ts";
import { openTasks, startService, startTaskWorld, type Service, type TaskWorld } from "./task-world.ts";

const names = {
  submitted: "submitted and taken",
  charged: "the same, until its charge is booked",
  completed: "completed, nothing given back",
  failed: "failed, until its refund is booked",
} as const;

/** How many tasks are submitted in a round, half of which will fail, and before it to compile the code. */
export type EndsSize = { tasks: number; warmup: number };

const defaultSize: EndsSize = { tasks: 600, warmup: 100 };
// Polls come when the bench says so, and charges are confirmed soon enough to be waited for.
const variables = { POLL_INTERVAL_MS: "3600000", CONFIRM_MS: "500" };
const waitMs = 60_000;

/**
 * Measures submissions per second through gRPC, with their charges, and then the ends of the same tasks: half of them
 * completed, half failed and refunded. A database of its own for each round.
 */
export async function measureEnds({ rounds, say }: MoneyPlan, size = defaultSize): Promise<MoneyOutcome> {
  await using world = await startTaskWorld({ hasTruth: true });
  const windows: VariantWindow[] = [];
  const complaints: string[] = [];
  const all: Submissions = { completed: [], failed: [], refused: [] };
  for (let round = 1; round <= rounds; round += 1) {
    say(`submissions and ends: round ${round} of ${rounds}`);
    const measured = await measureRound(world, size);
    for (const { variant, done, metered } of measured.seen) windows.push(toWindow(round, variant, done, metered));
    complaints.push(...measured.complaints.map((complaint) => `round ${round}: ${complaint}`));
    for (const end of ["completed", "failed", "refused"] as const) all[end].push(...measured.submissions[end]);
  }
  const accepted = [...all.completed, ...all.failed];
  complaints.push(...auditLedger(world.ledger, { accepted, failed: all.failed }));
  complaints.push(...auditProvider(world.truthFile, accepted.length));
  return {
    title: `Video tasks, ${submissionsInFlight} submissions in flight`,
    unit: "tasks",
    windows,
    variants: summarizeVariants(windows, ""),
    bars: [],
    complaints,
  };
}

type EndsResult = { variant: string; done: number; metered: Metered };
type Round = { seen: EndsResult[]; submissions: Submissions; complaints: string[] };

async function measureRound(world: TaskWorld, { tasks, warmup }: EndsSize): Promise<Round> {
  await using database = await openTasks(world);
  await using service = await startService(world, database, variables);
  using channel = connectGrpc(`127.0.0.1:${service.port}`);
  const client = unaryClient(VideoTaskService, channel, waitMs);
  const submissions: Submissions = { completed: [], failed: [], refused: [] };
  await submitTasks(client, warmup, submissions);
  await untilNone(database, "charges are booked", openCharges);

  const meter = (): (() => Metered) => startMeter(readersOf(world, service));
  const [stopTaken, stopBooked] = [meter(), meter()];
  await submitTasks(client, tasks, submissions);
  const taken = { variant: names.submitted, done: tasks, metered: stopTaken() };
  await untilNone(database, "charges are booked", openCharges);
  const charged = { variant: names.charged, done: tasks, metered: stopBooked() };

  const end = async (ending: "completed" | "failed", open: string): Promise<EndsResult> => {
    const stop = meter();
    await database.pool.query(makeDue, [submissions[ending]]);
    await untilNone(database, `tasks have ${ending}`, open);
    return { variant: names[ending], done: submissions[ending].length, metered: stop() };
  };
  const seen = [
    taken,
    charged,
    await end("completed", openDue),
    await end("failed", `${openDue} UNION ALL ${openMoney}`),
  ];
  const expected = { running: 0, completed: submissions.completed.length, failed: submissions.failed.length };
  const wrong = await auditTasks(database.ownerUrl, expected);
  return { seen, submissions, complaints: [...submissions.refused, ...wrong] };
}

const makeDue = "UPDATE video_task.task SET next_look_at = now() WHERE rid = ANY ($1::uuid[])";
const openMoney = "SELECT FROM video_task.money_event WHERE next_try_at IS NOT NULL";
const openCharges = `${openMoney} AND kind = 1`;
// Claimed ones are due within a minute: the lease of a poll.
const openDue = "SELECT FROM video_task.task WHERE next_look_at < now() + interval '1 minute'";

// Asked of indexes that hold little but what is open, so that asking costs next to nothing.
async function untilNone({ pool }: TasksDatabase, description: string, open: string): Promise<void> {
  const isNone = async (): Promise<boolean> => {
    const { rows } = await pool.query(`SELECT EXISTS (${open}) AS "isOpen"`);
    return rows[0].isOpen === false;
  };
  await until(description, isNone, waitMs);
}

function readersOf({ postgres, natsPid, provider }: TaskWorld, service: Service): Record<string, CpuReader> {
  return {
    "video-task": () => readProcessUse(service.pid).cpuUs,
    PostgreSQL: () => readTreeCpuUs(postgres.pid),
    NATS: () => readProcessUse(natsPid).cpuUs,
    provider: () => readProcessUse(provider.pid).cpuUs,
    "relay, billing stub": () => readProcessUse(process.pid).cpuUs,
  };
}
