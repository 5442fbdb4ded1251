import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { until } from "#shared/testing/until.ts";
import type { Service } from "../../tools/local/service.ts";
import type { FaultPoint } from "./fault-points.ts";
import type { TaskLinkName } from "./links.ts";
import { relaySilentMs, submitLeaseMs, type TaskRound, type TaskScenario } from "./task-scenario.ts";

const victims = [
  "video-task",
  "second video-task",
  "relay",
  "billing",
  "nats",
  "postgres",
  "auth-quota",
  "redis",
] as const;

/** A process that can be killed and started again. */
export type TaskVictim = (typeof victims)[number];

export const taskVictims: readonly TaskVictim[] = victims;

type Victim = Pick<Service, "kill" | "restart">;

const passedTimeoutMs = 30_000;

function processOf({ world, replicas }: TaskScenario, name: TaskVictim): Victim {
  const { services, stores } = world.stack;
  const [first, second] = replicas;
  const processes: Record<TaskVictim, Victim | undefined> = {
    "video-task": first,
    "second video-task": second,
    relay: services.relay,
    billing: services.billing,
    "auth-quota": services.authQuota,
    redis: stores.processes.redis,
    nats: stores.processes.nats,
    postgres: stores.processes.postgres,
  };
  const victim = processes[name];
  if (!victim) throw new Error(`${name} does not run here, so that it cannot be killed`);
  return victim;
}

// Whose harm may lose a submission; of all others' none may.
const losers: ReadonlySet<TaskVictim> = new Set(["video-task", "second video-task", "postgres"]);

/** The processes that may pass a point. */
function passersOf({ world, replicas }: TaskScenario, { service }: FaultPoint): readonly Service[] {
  return service === "video-task" ? replicas : [world.stack.services.relay];
}

/** Kills a process at a random moment of a load, leaves it dead for up to 1.5 s, and starts it again. */
export async function strikeTaskAnywhere(scenario: TaskScenario, round: TaskRound, name: TaskVictim): Promise<void> {
  const { random } = scenario;
  const victim = processOf(scenario, name);
  await round.more(random.between(2, 8));
  await pause(random.between(0, 300));
  const fromMs = Date.now();
  await victim.kill();
  await pause(random.between(0, 1_500));
  await victim.restart();
  if (losers.has(name)) round.harms.push({ fromMs, toMs: Date.now() });
}

/** Lets a process kill itself at a fault point, and starts it again. Throws when none has within 30 s. */
export async function strikeTaskAt(scenario: TaskScenario, round: TaskRound, point: FaultPoint): Promise<void> {
  const { faults, random } = scenario;
  await round.more(random.between(1, 5));
  const passers = passersOf(scenario, point);
  const findDead = (): Service | undefined => passers.find((service) => !service.isRunning());
  try {
    await faults.arm(point);
    await until(
      `${point.service} dies at its fault point`,
      () => !faults.isArmed(point) && findDead(),
      passedTimeoutMs,
    );
  } finally {
    await faults.disarm(point);
  }
  const fromMs = Date.now();
  const dead = findDead();
  const outcome = await dead?.ended;
  if (outcome !== "ended by SIGKILL") throw new Error(`${point.service} ${outcome} at its fault point`);
  await pause(random.between(0, 1_000));
  await dead?.restart();
  if (point.service === "video-task") round.harms.push({ fromMs, toMs: Date.now() });
}

// Above the time after which a relay counts as gone.
const relayPauseMs = relaySilentMs + 1_000;

/** Lets a process stand still at a fault point for longer than its leases, and go on as if nothing had been. */
export async function pauseTaskAt(scenario: TaskScenario, round: TaskRound, point: FaultPoint): Promise<void> {
  const { faults, random } = scenario;
  await round.more(random.between(1, 5));
  const passers = passersOf(scenario, point);
  let fromMs = Date.now();
  try {
    await faults.arm(point, "SIGSTOP");
    const isStopped = (): boolean => !faults.isArmed(point) && passers.some(isStandingStill);
    await until(`${point.service} stands still at its fault point`, isStopped, passedTimeoutMs);
    fromMs = Date.now();
    const minMs = point.service === "relay" ? relayPauseMs : submitLeaseMs + 500;
    await pause(random.between(minMs, minMs + 2_500));
  } finally {
    await faults.disarm(point);
    for (const { pid } of passers.filter(isStandingStill)) process.kill(pid, "SIGCONT");
  }
  if (point.service === "video-task") round.harms.push({ fromMs, toMs: Date.now() });
}

// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: T is stopped.
function isStandingStill({ pid, isRunning }: Service): boolean {
  return isRunning() && /\) T /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

/** Cuts a link of the first replica, or lets nothing pass on it, for up to 4 s. */
export async function harmTaskLink(
  scenario: TaskScenario,
  round: TaskRound,
  { name, how }: { name: TaskLinkName; how: "cut" | "freeze" },
): Promise<void> {
  const { links, random } = scenario;
  const proxy = links.proxies[name];
  if (proxy.opened() === 0) throw new Error(`nobody goes by the link ${name}`);
  await round.more(random.between(1, 5));
  const fromMs = Date.now();
  proxy[how]();
  await pause(random.between(500, 4_000));
  proxy.heal();
  if (name === "video-task to PostgreSQL") round.harms.push({ fromMs, toMs: Date.now() });
}

/** Asks a process to stop, as a rolling update does, and starts it again; nothing may be lost by that. */
export async function replaceTaskProcess(scenario: TaskScenario, round: TaskRound, name: TaskVictim): Promise<void> {
  await round.more(scenario.random.between(2, 8));
  await processOf(scenario, name).restart();
}
