import { setTimeout as pause } from "node:timers/promises";
import { until } from "#shared/testing/until.ts";
import { planDearStream } from "../e2e/call-mix.ts";
import type { Service } from "../../tools/local/service.ts";
import type { ServiceName } from "../../tools/local/stack.ts";
import type { FaultPoint } from "./fault-points.ts";
import { emptyRedis } from "./lost-stores.ts";
import { type Round, type Scenario, signal } from "./scenario.ts";

const victims = ["relay", "auth-quota", "billing", "redis", "nats", "postgres"] as const;

/** A process that can be killed and started again. */
export type Victim = (typeof victims)[number];

export const victimNames: readonly Victim[] = victims;

const deathTimeoutMs = 30_000;
const streamAttempts = 40;

export function serviceOf({ world }: Scenario, name: ServiceName): Service {
  const { relay, authQuota, billing, videoTask } = world.stack.services;
  return { relay, "auth-quota": authQuota, billing, "video-task": videoTask }[name];
}

function processOf(scenario: Scenario, name: Victim): Pick<Service, "kill" | "restart"> {
  if (name === "relay" || name === "auth-quota" || name === "billing") return serviceOf(scenario, name);
  const store = scenario.world.stack.stores.processes[name];
  if (!store) throw new Error(`${name} does not run here, so that it cannot be killed`);
  return store;
}

/** Kills a process at a random moment of a load, leaves it dead for up to 1.5 s, and starts it again. */
export async function strikeAnywhere(scenario: Scenario, round: Round, name: Victim): Promise<void> {
  const { random } = scenario;
  const victim = processOf(scenario, name);
  await round.more(random.between(10, 35));
  // Half of the kills strike where a record is most at risk, right behind the end of an answer; the others anywhere.
  if (random.chance(50)) await round.load.nextWhole();
  else await pause(random.between(0, 60));
  await victim.kill();
  if (name === "relay") await round.noteCheckpoints();
  await pause(random.between(0, 1_500));
  await victim.restart();
}

/**
 * Lets a process kill itself at a fault point, and starts it again; `lead` brings it there. Throws when it has not
 * within 30 s.
 */
export async function strikeAt(
  scenario: Scenario,
  round: Round,
  point: FaultPoint,
  lead?: () => Promise<unknown>,
): Promise<void> {
  const { faults, random } = scenario;
  const service = serviceOf(scenario, point.service);
  await round.more(random.between(5, 15));
  const isDead = (): boolean => !faults.isArmed(point) && !service.isRunning();
  try {
    await armAndProvoke(scenario, round, point);
    await lead?.();
    await until(`${point.service} dies at its fault point`, isDead, deathTimeoutMs);
  } finally {
    await faults.disarm(point);
    heal(scenario, point);
  }
  const outcome = await service.ended;
  if (outcome !== "ended by SIGKILL") throw new Error(`${point.service} ${outcome} at its fault point`);
  if (point.service === "relay") await round.noteCheckpoints();
  await pause(random.between(0, 1_000));
  await service.restart();
}

async function armAndProvoke(scenario: Scenario, round: Round, point: FaultPoint): Promise<void> {
  const { relay } = scenario.world.stack.services;
  const { provocation } = point;
  if (provocation === "relay-restarts") {
    await openDearStream(round);
    await relay.kill();
    await round.noteCheckpoints();
  }
  await scenario.faults.arm(point);
  if (provocation === "relay-is-silent") signal(relay, "SIGSTOP");
  if (provocation === "stream-is-away") scenario.links.proxies["relay to NATS"].cut();
  if (provocation === "redis-is-emptied") await emptyRedis(scenario);
  // It dies on its way up, before or after it has said that it is ready.
  if (provocation === "relay-restarts") await relay.restart().catch(() => undefined);
}

/** Opens a stream that has been worth a checkpoint when this returns, and has not ended. */
async function openDearStream(round: Round): Promise<void> {
  const plan = planDearStream(await round.addCustomer(), { dialect: "messages", words: 200, gapMs: 20 });
  for (let attempt = 1; attempt <= streamAttempts; attempt += 1) {
    let words = 0;
    let isOver = false;
    const over = (): void => void (isOver = true);
    round.call(plan, { onWords: (count) => void (words = count) }).then(over, over);
    await until("a stream is under way, or over", () => words > 30 || isOver, deathTimeoutMs);
    if (!isOver) return;
    // What was killed before may still be on its way up.
    await pause(500);
  }
  throw new Error(`no stream came under way in ${streamAttempts} attempts`);
}

function heal(scenario: Scenario, { provocation }: FaultPoint): void {
  if (provocation === "relay-is-silent") signal(scenario.world.stack.services.relay, "SIGCONT");
  if (provocation === "stream-is-away") scenario.links.proxies["relay to NATS"].heal();
}
