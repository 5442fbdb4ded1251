import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { createRandom, type Random } from "../e2e/random.ts";
import { startSecondVideoTask } from "../e2e/second-video-task.ts";
import type { TaskFindings } from "../e2e/task-checker.ts";
import type { HarmTime, ProviderSend } from "../e2e/task-evidence.ts";
import type { TaskLog } from "../e2e/task-requests.ts";
import { startWorld, type World } from "../e2e/world.ts";
import type { Service } from "../../tools/local/service.ts";
import type { ServiceName } from "../../tools/local/stack.ts";
import { type FaultFolder, openFaultFolder } from "./fault-points.ts";
import { type Links, openTaskLinks, type TaskLinkName } from "./links.ts";
import type { ScenarioOptions } from "./scenario.ts";
import { auditTasks, type TaskCustomer, wrongTaskRefusals } from "./task-audit.ts";
import { shortLeases } from "./task-fault-points.ts";
import { startTaskLoad, type TaskLoad } from "./task-load.ts";
import { taskCatalog, taskPriceNanos, taskSizes } from "./task-models.ts";

/** A load of tasks under way, and what the harm done meanwhile has to tell the checker. */
export type TaskRound = {
  load: TaskLoad;
  harms: HarmTime[];
  problems: string[];
  /** Waits until `count` more submissions have an answer of whatever sort; throws after 60 s. */
  more: (count: number) => Promise<void>;
};

/** What one round of load and harm came to; `ends` says in words what callers got. */
export type TaskRoundResult = TaskFindings & { ends: string };

/** The whole system with two replicas of video-task, which one relay asks by turns, and fault points. */
export type TaskScenario = AsyncDisposable & {
  world: World;
  /** Both replicas of video-task. */
  replicas: readonly Service[];
  /** Those of the first of them. */
  links: Links<TaskLinkName>;
  faults: FaultFolder;
  random: Random;
  say: (text: string) => void;
  /** Runs a load with customers of its own while `harm` is done, waits for rest, and judges. */
  round: (harm: (round: TaskRound) => Promise<void>) => Promise<TaskRoundResult>;
};

const richNanos = 100_000_000_000_000n;
// Enough for a few tasks: the last of it is fought for, and refunds bring some of it back.
const poorNanos = 12_000_000_000n;
const answerTimeoutMs = 60_000;
const servedTimeoutMs = 90_000;
const quietTimeoutMs = 120_000;
const drainMs = 100;

/** A submission of which nobody says anything for so long counts as unknown. */
export const submitLeaseMs = 3_000;
/** A relay that says nothing for so long counts as gone. Above the second between two heartbeats. */
export const relaySilentMs = 7_000;

const variables: Record<ServiceName, Record<string, string>> = {
  relay: {},
  "auth-quota": { RELAY_SILENT_MS: String(relaySilentMs) },
  billing: { OUTBOX_AGE_MS: "2000", USAGE_ACK_WAIT_MS: "3000" },
  "video-task": {
    POLL_INTERVAL_MS: "200",
    CONFIRM_MS: "300",
    GRACE_SECONDS: "4",
    SUBMIT_LEASE_MS: String(submitLeaseMs),
  },
};

/** Starts the system. */
export async function startTaskScene({ seed, callers, say }: ScenarioOptions): Promise<TaskScenario> {
  await using resources = new AsyncDisposableStack();
  const faultPlace = await mkdtemp(join(tmpdir(), "relay-faults-"));
  removeAtEnd(faultPlace);
  resources.defer(() => rm(faultPlace, { recursive: true, force: true }));
  const faults = await openFaultFolder(faultPlace);
  const environmentOf = (name: ServiceName) => ({
    ...variables[name],
    ...faults.environmentOf(name === "video-task" ? shortLeases : []),
  });
  const links = resources.use(await openTaskLinks());
  const secondPort = await freePort();
  const world = resources.use(
    await startWorld({
      catalog: (_fakeUrl, videosUrl) => taskCatalog(videosUrl),
      fake: { receivedLimit: 1 },
      serviceEnvironment: Object.fromEntries(
        (Object.keys(variables) as ServiceName[]).map((name) => [name, environmentOf(name)]),
      ),
      reroute: (service, told) => withSecond(links.reroute(service, told), secondPort),
    }),
  );
  const own = { ...environmentOf("video-task"), GRPC_PORT: String(secondPort) };
  const second = resources.use(await startSecondVideoTask(world, own));
  const replicas = [world.stack.services.videoTask, second];
  const sends = resources.use(drainSends(world));
  const owned = resources.move();
  return {
    world,
    replicas,
    links,
    faults,
    random: createRandom(seed),
    say,
    round: createTaskRounds({ world, seed, callers, sends }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

// Both under one name: gRPC asks them by turns, and the other when one is away.
function withSecond(told: Record<string, string>, secondPort: number): Record<string, string> {
  const { VIDEO_TASK_ADDRESS: first } = told;
  return first === undefined ? told : { ...told, VIDEO_TASK_ADDRESS: `ipv4:${first},127.0.0.1:${secondPort}` };
}

type Sends = Disposable & { all: ProviderSend[] };

/** Takes the submissions out of what the fake provider has received, which keeps only the newest requests. */
function drainSends({ videos }: World): Sends {
  const all: ProviderSend[] = [];
  const drain = (): void => {
    for (const { method, path, headers } of videos.received.splice(0)) {
      if (method !== "POST") continue;
      all.push({
        rid: headers["x-request-id"]?.toString() ?? null,
        api: path.includes("models") ? "gemini" : "openai",
      });
    }
  };
  const timer = setInterval(drain, drainMs);
  return {
    get all() {
      drain();
      return all;
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

type Rounds = { world: World; seed: number; callers: number; sends: Sends };

function createTaskRounds({ world, seed, callers, sends }: Rounds): TaskScenario["round"] {
  const dearest = { size: taskSizes.at(-1) ?? "", seconds: 8 };
  const overspendBoundNanos = BigInt(callers) * taskPriceNanos(dearest);
  let count = 0;
  return async (harm) => {
    count += 1;
    const customers = await createTaskCustomers(world, [richNanos, richNanos, poorNanos]);
    const load = startTaskLoad({ url: world.relayUrl, customers, callers, seed: seed * 100 + count });
    const round = createTaskRound(load);
    try {
      await harm(round);
      await untilAccepted(load);
    } catch (error) {
      round.problems.push(`the harm could not be done: ${String(error)}`);
    }
    await load.stop();
    const { log } = load;
    const { harms } = round;
    const seen = { log, sends: sends.all, harms, overspendBoundNanos, quietTimeoutMs };
    const findings = await auditTasks(world, customers, seen);
    const isRich = ({ creditNanos }: TaskCustomer): boolean => creditNanos === richNanos;
    const richIds = new Set(customers.filter(isRich).map(({ accountId }) => accountId));
    findings.report.problems.push(...round.problems, ...wrongTaskRefusals(log.submissions, richIds));
    // What is judged need not be kept: a long run must not need more and more memory.
    sends.all.length = 0;
    world.videos.forget();
    return { ...findings, ends: `${describeTaskEnds(log)}; at rest after ${findings.restSeconds} s` };
  };
}

function describeTaskEnds({ submissions, sightings, downloads }: TaskLog): string {
  const ends = Map.groupBy(submissions, ({ status, taskId }) =>
    status === 200 && !taskId ? "cut" : (status ?? "none"),
  );
  const counts = [...ends].map(([end, some]) => `${end} ${some.length}`).toSorted();
  return `submissions got ${counts.join(", ")}; ${sightings.length} sightings, ${downloads.length} downloads`;
}

async function createTaskCustomers(world: World, credits: readonly bigint[]): Promise<TaskCustomer[]> {
  const customers: TaskCustomer[] = [];
  for (const creditNanos of credits) {
    const customer = await until("a customer is made", () => world.createCustomer({ creditNanos }), answerTimeoutMs);
    customers.push({ ...customer, creditNanos });
  }
  return customers;
}

function createTaskRound(load: TaskLoad): TaskRound {
  return {
    load,
    harms: [],
    problems: [],
    more: async (count) => {
      const isTooLate = new AbortController();
      const late = pause(answerTimeoutMs, "late", { signal: isTooLate.signal }).catch(() => "cleared");
      const first = await Promise.race([load.more(count), late]);
      isTooLate.abort();
      if (first === "late") throw new Error(`callers got no ${count} answers within ${answerTimeoutMs / 1_000} s`);
    },
  };
}

/** Waits until submissions that nothing is wrong with are taken again. */
async function untilAccepted({ log }: TaskLoad): Promise<void> {
  const before = log.submissions.length;
  const isAccepted = (): boolean => log.submissions.slice(before).filter(({ taskId }) => taskId).length >= 3;
  await until("tasks are taken again", isAccepted, servedTimeoutMs);
}
