import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { startPgbouncer } from "#shared/testing/pgbouncer.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import { planDearStream } from "../e2e/call-mix.ts";
import type { Customer } from "../e2e/world.ts";
import type { Drill } from "./drill.ts";
import { startPostgresPair } from "./postgres-pair.ts";

const run = promisify(execFile);
const dollar = 1_000_000_000n;
const settledMs = 90_000;

const say = (customer: Customer) => planDearStream(customer, { dialect: "chat", words: 5, gapMs: 1 });

/** What was changed after the moment to which the ledger goes back. */
type Changes = { made: Customer; stopped: Customer; suspended: Customer };

/** Makes a key, stops one, suspends an account and gives money: all of it must be as it was after the failover. */
async function changeThings({ world }: Scenario, round: Round, before: Changes): Promise<Changes> {
  const { stopped, suspended } = before;
  const made = await round.addCustomer();
  await round.call(say(made));
  await world.authQuota.updateKey({ keyId: stopped.keyId, status: KeyStatus.STOPPED });
  await world.authQuota.updateAccount({ accountId: suspended.accountId, status: AccountStatus.SUSPENDED });
  const [rich] = round.customers;
  if (rich) await round.credit(rich, 5n * dollar);
  return { ...before, made };
}

/** Customers whose settings are changed later; each has made a call by then. */
async function addChanging(round: Round): Promise<Changes> {
  const [made, stopped, suspended] = [await round.addCustomer(), await round.addCustomer(), await round.addCustomer()];
  for (const customer of [made, stopped, suspended]) await round.call(say(customer));
  return { made, stopped, suspended };
}

/** Checks that the changes hold, with no command but waiting. */
async function checkThings(round: Round, { made, stopped, suspended }: Changes): Promise<void> {
  const statusOf = async (customer: Customer) => (await round.call({ ...say(customer), isSound: false })).status;
  const isBack = async (): Promise<boolean> => (await statusOf(made)) === 200;
  await until("a key made in the gap works", isBack, settledMs);
  for (const [what, customer] of Object.entries({ "a stopped key": stopped, "a suspended account": suspended })) {
    const status = await statusOf(customer);
    if (status !== 401) round.problems.push(`${what} is answered ${status}`);
  }
}

/** Holds the replica behind, kills the primary, and promotes the replica behind the same address. */
const laggingPromotion: Drill = {
  name: "postgres-lagging-replica",
  says: "the primary dies, and a replica that lacks the last seconds is promoted",
  stage: async (resources) => {
    const pair = resources.use(await startPostgresPair());
    return {
      scene: { given: { postgres: pair.url } },
      harm: async (scenario, round) => {
        const before = await addChanging(round);
        await round.more(40);
        pair.replication.cut();
        await round.more(60);
        const changes = await changeThings(scenario, round, before);
        await round.more(60);
        // As long as a line by hand may take to the stream.
        await pause(1_000);
        await pair.primary.kill();
        await pair.promote();
        pair.front.leadTo(pair.replica.port);
        await round.untilServed();
        await round.more(60);
        await checkThings(round, changes);
      },
    };
  },
};

/** Puts an older dump in the place of the database while the system runs. */
const restoredDump: Drill = {
  name: "postgres-older-dump",
  says: "the database is dropped and made again from an older dump, while the services run",
  stage: async (resources) => {
    const { postgres } = resources.use(await startStores({ postgres: true }));
    const url = await postgres.createDatabase();
    const folder = await mkdtemp(join(tmpdir(), "relay-dump-"));
    resources.defer(() => rm(folder, { recursive: true, force: true }));
    const dump = join(folder, "dump");
    return {
      scene: { given: { postgres: url } },
      harm: async (scenario, round) => {
        const before = await addChanging(round);
        await round.more(40);
        await run("pg_dump", ["-Fc", "-f", dump, url]);
        await round.more(40);
        const changes = await changeThings(scenario, round, before);
        await round.more(40);
        // As long as a line by hand may take to the stream.
        await pause(1_000);
        const name = new URL(url).pathname.slice(1);
        await query(postgres.url, `DROP DATABASE ${name} WITH (FORCE)`);
        await round.more(10);
        await query(postgres.url, `CREATE DATABASE ${name}`);
        await run("pg_restore", ["-d", url, dump]);
        await round.untilServed();
        await round.more(60);
        await checkThings(round, changes);
      },
    };
  },
};

/** Ends the pooler before all services' connections, and starts it again. */
const restartedPooler: Drill = {
  name: "pgbouncer-restarted",
  says: "pgbouncer in transaction mode before PostgreSQL is killed and started again, three times",
  stage: async (resources) => {
    const { postgres } = resources.use(await startStores({ postgres: true }));
    const pooler = resources.use(await startPgbouncer(await postgres.createDatabase()));
    return {
      scene: { given: { postgres: pooler.url } },
      harm: async (_scenario, round) => {
        for (const waitMs of [0, 1_000, 5_000]) {
          await round.more(40);
          await pooler.kill();
          await pause(waitMs);
          await pooler.restart();
        }
        await round.untilServed();
        await round.more(40);
      },
    };
  },
};

/** Lets PostgreSQL refuse every write for a while, as a provider does whose disk is full. */
const readOnlyPrimary: Drill = {
  name: "postgres-read-only",
  says: "the primary takes no writes for ten seconds, as one that was demoted or has a full disk",
  stage: async (resources) => {
    const { postgres } = resources.use(await startStores({ postgres: true }));
    const url = await postgres.createDatabase();
    const set = async (value: string): Promise<void> => {
      await query(postgres.url, `ALTER SYSTEM SET default_transaction_read_only = ${value}`);
      await query(postgres.url, "SELECT pg_reload_conf()");
    };
    return {
      scene: { given: { postgres: url } },
      harm: async (_scenario, round) => {
        await round.more(40);
        await set("on");
        await pause(10_000);
        await set("off");
        await round.more(60);
      },
    };
  },
};

/** Starts the former primary again after the promotion, and leaves one service connected to it. */
const splitBrain: Drill = {
  name: "postgres-split-brain",
  says: "after a promotion the former primary runs again, and for a while one service works on it",
  stage: async (resources) => {
    const pair = resources.use(await startPostgresPair());
    return {
      scene: { given: { postgres: pair.url } },
      harm: async (scenario, round) => {
        await round.more(40);
        await pair.primary.kill();
        await pair.promote();
        pair.front.leadTo(pair.replica.port);
        await round.more(40);
        await pair.primary.restart();
        const billing = scenario.links.proxies["billing to PostgreSQL"];
        billing.leadTo(pair.primary.port);
        billing.cut();
        billing.heal();
        await round.more(80);
        await pause(3_000);
        await pair.primary.kill();
        billing.leadTo(pair.front.port);
        await round.untilServed();
        await round.more(60);
      },
    };
  },
};

export const postgresDrills: readonly Drill[] = [
  laggingPromotion,
  restoredDump,
  splitBrain,
  readOnlyPrimary,
  restartedPooler,
];
