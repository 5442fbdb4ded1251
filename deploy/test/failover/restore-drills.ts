import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { readMetric } from "../e2e/kills.ts";
import { emptyRedis } from "../chaos/lost-stores.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import type { Customer } from "../e2e/world.ts";
import { planDearStream } from "../e2e/call-mix.ts";
import { addChanging, changeThings, checkThings } from "./changes.ts";
import { runAdmin } from "./backup-drills.ts";
import type { Drill } from "./drill.ts";
import { disk, dump, nameOf, onOwnDatabase, type Place, type Return } from "./postgres-drills.ts";

/** A store whose state is kept while the system runs, and put back later. */
type Kept = {
  keep: () => Promise<void>;
  stop: () => Promise<void>;
  putBack: () => Promise<void>;
};

function keptNats(scenario: Scenario): Kept {
  const { nats } = scenario.world.stack.stores.processes;
  if (!nats) throw new Error("NATS does not run here");
  const [own, copy] = [join(scenario.folder, "nats"), join(scenario.folder, "nats-copy")];
  return {
    keep: async () => {
      // A whole copy is one of a server that is not writing.
      await nats.kill("SIGTERM");
      await cp(own, copy, { recursive: true });
      await nats.restart();
    },
    stop: () => nats.kill(),
    putBack: async () => {
      await rm(own, { recursive: true });
      await cp(copy, own, { recursive: true });
      await nats.restart();
    },
  };
}

function keptPostgres({ keep, putBack }: Return, { url, maintenanceUrl, folder }: Place): Kept {
  return {
    keep: () => keep(url, maintenanceUrl, folder),
    stop: () => query(maintenanceUrl, `DROP DATABASE ${nameOf(url)} WITH (FORCE)`).then(() => undefined),
    putBack: () => putBack(url, maintenanceUrl, folder),
  };
}

/** In which order stores are kept, and what happens besides. */
type Accident = {
  order: readonly ["postgres" | "nats", "postgres" | "nats"];
  by: Return;
  isRedisEmptied?: boolean;
  areServicesKilled?: boolean;
};

async function comeBackApart(scenario: Scenario, round: Round, accident: Accident, place: Place): Promise<void> {
  const stores = { postgres: keptPostgres(accident.by, place), nats: keptNats(scenario) };
  const [older, newer] = accident.order.map((name) => stores[name]);
  const before = await addChanging(round);
  await round.more(40);
  await older?.keep();
  await round.untilServed();
  await round.more(40);
  const changes = await changeThings(scenario, round, before);
  // As long as a line by hand may take to the stream.
  await pause(1_000);
  await newer?.keep();
  await round.untilServed();
  await round.more(60);
  await untilBooked(scenario);
  const { relay, ...others } = scenario.world.stack.services;
  const killed = accident.areServicesKilled === true ? [relay, ...Object.values(others)] : [];
  await Promise.all(killed.map((service) => service.kill()));
  await Promise.all([older?.stop(), newer?.stop()]);
  if (accident.isRedisEmptied === true) await emptyRedis(scenario);
  if (killed.length === 0) await round.more(10);
  await Promise.all([older?.putBack(), newer?.putBack()]);
  await Promise.all(killed.map((service) => service.restart()));
  await round.untilServed();
  await round.more(60);
  await checkThings(round, changes);
  // A relay that starts tells all that is in the files which it finds, booked or not.
  if (killed.length > 0) return;
  const { opsUrl } = scenario.world.stack.services.relay;
  const isToldAgain = async () => (await readMetric(opsUrl, "relay_lost_charges_total")) > 0;
  await until("what both had lost is told again", isToldAgain, toldAgainMs);
}

const toldAgainMs = 60_000;
const bookedMs = 90_000;

/**
 * Waits until the relay's spool has let go of all calls that have ended by now. What is not booked when the stores go
 * comes from the spool and from auth-quota's outbox: nothing would be lost by both stores, and nothing told again.
 */
async function untilBooked({ world }: Scenario): Promise<void> {
  const { opsUrl } = world.stack.services.relay;
  const sinceMs = performance.now();
  const isBooked = async (): Promise<boolean> => {
    const atMs = performance.now();
    return (await readMetric(opsUrl, "relay_spool_oldest_seconds")) * 1_000 < atMs - sinceMs;
  };
  await until("what has ended is booked", isBooked, bookedMs);
}

/**
 * Puts PostgreSQL back while Redis is emptied, which alone would still have what was made since: an account and its key
 * are gone. They are found in the ledger, and the account with its money comes back by a command.
 */
async function loseAccount(scenario: Scenario, round: Round, place: Place): Promise<void> {
  const postgres = keptPostgres(dump, place);
  await round.more(40);
  await postgres.keep();
  const made = await round.addCustomer();
  await round.call(say(made));
  await untilBooked(scenario);
  await postgres.stop();
  await emptyRedis(scenario);
  await postgres.putBack();
  await round.untilServed();
  await round.more(40);
  const lostNow = async (): Promise<string[]> => {
    const { told } = await runAdmin(scenario, "--json", "lost");
    const { accounts, keys } = JSON.parse(told) as { accounts: { accountId: string }[]; keys: { keyId: string }[] };
    return [...accounts.map(({ accountId }) => accountId), ...keys.map(({ keyId }) => keyId)];
  };
  const isListed = async (): Promise<boolean> => (await lostNow()).join() === [made.accountId, made.keyId].join();
  await until("the account and its key are listed, and nothing else", isListed, toldAgainMs);
  await runAdmin(scenario, "account", "create", "--id", made.accountId, "--name", "made again");
  const key = await scenario.world.createKey(made.accountId);
  await until("it is served with the money that it had", async () => (await round.call(say(key))).status === 200);
  const left = await lostNow();
  if (left.join() !== made.keyId) round.problems.push(`lost lists ${left.join(", ")}, and not the key alone`);
}

const say = (customer: Customer) => planDearStream(customer, { dialect: "chat", words: 5, gapMs: 1 });

const apart = (name: string, says: string, accident: Accident): Drill =>
  onOwnDatabase(name, says, (scenario, round, place) => comeBackApart(scenario, round, accident, place));

/** Stores that come back as they were at different times. */
export const restoreDrills: readonly Drill[] = [
  apart("restored-apart-postgres-older", "PostgreSQL comes back from a dump, and NATS from a later copy of its disk", {
    order: ["postgres", "nats"],
    by: dump,
  }),
  apart("restored-apart-nats-older", "NATS comes back from a copy of its disk, and PostgreSQL from a later one", {
    order: ["nats", "postgres"],
    by: disk,
  }),
  apart("restored-apart-redis-empty", "PostgreSQL and NATS come back as they were at two times, and Redis empty", {
    order: ["nats", "postgres"],
    by: dump,
    isRedisEmptied: true,
  }),
  apart("restored-apart-services-new", "the same with older files, and all services are started anew", {
    order: ["nats", "postgres"],
    by: disk,
    areServicesKilled: true,
  }),
  onOwnDatabase(
    "restored-redis-empty",
    "PostgreSQL comes back from a dump and Redis empty: an account made since is listed and made again",
    loseAccount,
  ),
];
