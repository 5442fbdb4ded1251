import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import type { StoreName } from "#shared/testing/binaries.ts";
import type { Store } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { planDearStream } from "../e2e/call-mix.ts";
import type { CallPlan } from "../e2e/caller.ts";
import { readMetric } from "../e2e/kills.ts";
import { startSecondRelay } from "../e2e/second-relay.ts";
import type { Customer } from "../e2e/world.ts";
import type { Round, Scenario } from "./scenario.ts";

function storeOf({ world }: Scenario, name: StoreName): Store {
  const store = world.stack.stores.processes[name];
  if (!store) throw new Error(`${name} does not run here, so that it cannot be harmed`);
  return store;
}

/** Deletes what a store has written, not what it is told; it must not run. */
async function deleteData({ folder }: Scenario, name: StoreName): Promise<void> {
  const place = join(folder, name);
  const written = (await readdir(place)).filter((entry) => !entry.endsWith(".conf"));
  for (const entry of written) await rm(join(place, entry), { recursive: true });
}

async function sayWhenServed({ say }: Scenario, round: Round): Promise<void> {
  const startedAt = performance.now();
  await round.untilServed();
  say(`  served again after ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`);
}

/** Empties Redis while it runs. */
export async function flushRedis(scenario: Scenario, round: Round): Promise<void> {
  await round.more(scenario.random.between(20, 60));
  await round.load.nextWhole();
  await emptyRedis(scenario);
  await sayWhenServed(scenario, round);
}

// Far above what an account may be below zero: whoever may spend it twice shows.
const spenderNanos = 6_000_000_000n;
const spendersAtOnce = 8;
// Longer than a recovery lock stays closed when nothing else keeps it so.
const unbookedMs = 14_000;
// Seconds, but a busy machine takes far longer to spend all.
const emptiedMs = 60_000;

/**
 * Empties Redis while an account has spent all it had and nobody but the stream knows: its relay is dead, and billing
 * cannot read the stream. As long as that is so, nobody can say what is left, and afterwards nothing must be.
 */
export async function flushUnbooked(scenario: Scenario, round: Round): Promise<void> {
  const { proxies } = scenario.links;
  const spender = await round.addCustomer(spenderNanos);
  await using relay = await startSecondRelay(scenario.world, join(scenario.folder, `spool-of-${spender.accountId}`));
  await round.more(scenario.random.between(20, 60));
  // Its key and its balance must be known before nobody can tell them.
  await round.call(dearStream(spender), { url: relay.url });
  proxies["billing to NATS"].freeze();
  try {
    const isSpent = await spend(round, spender, { url: relay.url, forMs: emptiedMs });
    if (!isSpent) throw new Error("the account could not be emptied");
    await until("all is in the stream", async () => (await readMetric(relay.opsUrl, "relay_usage_waiting")) === 0);
    await relay.kill();
    await emptyRedis(scenario);
    await spend(round, spender, { forMs: unbookedMs });
  } finally {
    proxies["billing to NATS"].heal();
  }
  await sayWhenServed(scenario, round);
  if (!(await spend(round, spender, { forMs: emptiedMs }))) throw new Error("there is still money");
}

function dearStream(customer: Customer): CallPlan {
  return planDearStream(customer, { dialect: "chat", words: 150, gapMs: 1 });
}

/** Makes dear calls until one is refused for want of money, which is true, or the time is over. */
async function spend(round: Round, spender: Customer, where: { url?: string; forMs: number }): Promise<boolean> {
  const { forMs, ...place } = where;
  const deadlineMs = performance.now() + forMs;
  let isSpent = false;
  const work = async (): Promise<void> => {
    while (!isSpent && performance.now() < deadlineMs) {
      const { status } = await round.call(dearStream(spender), place);
      isSpent ||= status === 403;
      if (status !== 200) await pause(200);
    }
  };
  await Promise.all(Array.from({ length: spendersAtOnce }, work));
  return isSpent;
}

/** Deletes everything in Redis while it runs. */
export async function emptyRedis(scenario: Scenario): Promise<void> {
  const redis = new Redis(scenario.world.stack.stores.urls.redis);
  try {
    await redis.flushall();
  } finally {
    redis.disconnect();
  }
}

/** Kills Redis and starts it again without what it had written. */
export async function loseRedis(scenario: Scenario, round: Round): Promise<void> {
  await round.more(scenario.random.between(20, 60));
  await round.load.nextWhole();
  const redis = storeOf(scenario, "redis");
  await redis.kill();
  await deleteData(scenario, "redis");
  await pause(scenario.random.between(0, 2_000));
  await redis.restart();
  await sayWhenServed(scenario, round);
}

/** Kills NATS and starts it again without its streams; callers must not notice. */
export async function loseNats(scenario: Scenario, round: Round): Promise<void> {
  round.isUnnoticed = true;
  await round.more(scenario.random.between(20, 60));
  await round.load.nextWhole();
  const nats = storeOf(scenario, "nats");
  await nats.kill();
  await deleteData(scenario, "nats");
  await pause(scenario.random.between(0, 3_000));
  await nats.restart();
  await round.more(40);
}

/** Kills PostgreSQL and leaves it away for long; callers whose keys are known must not notice. */
export async function leavePostgres(
  scenario: Scenario,
  round: Round,
  options: { postgresAwayMs: number },
): Promise<void> {
  round.isUnnoticed = true;
  await round.more(scenario.random.between(60, 90));
  const postgres = storeOf(scenario, "postgres");
  await postgres.kill();
  await pause(options.postgresAwayMs);
  await postgres.restart();
  await round.more(40);
}
