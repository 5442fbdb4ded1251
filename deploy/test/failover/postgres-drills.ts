import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { startPgbouncer } from "#shared/testing/pgbouncer.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { startStores } from "#shared/testing/stores.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import { addChanging, changeThings, checkThings } from "./changes.ts";
import type { Drill } from "./drill.ts";
import { startPostgresPair } from "./postgres-pair.ts";

const run = promisify(execFile);

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

/** A database that goes back while the system runs: how what it has is kept, and how that is put in its place. */
export type Return = {
  keep: (url: string, maintenanceUrl: string, folder: string) => Promise<void>;
  putBack: (url: string, maintenanceUrl: string, folder: string) => Promise<void>;
};

export const nameOf = (url: string): string => new URL(url).pathname.slice(1);

export const dump: Return = {
  keep: async (url, _maintenanceUrl, folder) => void (await run("pg_dump", ["-Fc", "-f", join(folder, "dump"), url])),
  putBack: async (url, maintenanceUrl, folder) => {
    await query(maintenanceUrl, `CREATE DATABASE ${nameOf(url)}`);
    await run("pg_restore", ["-d", url, join(folder, "dump")]);
  },
};

// A copy by files: server, timeline and tables have the identities that they had.
export const disk: Return = {
  keep: async (url, maintenanceUrl) => {
    const name = nameOf(url);
    await query(maintenanceUrl, `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await query(maintenanceUrl, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    await until("it is copied", () =>
      query(maintenanceUrl, `CREATE DATABASE ${name}_kept TEMPLATE ${name}`).then(() => true),
    );
    await query(maintenanceUrl, `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
  },
  putBack: async (url, maintenanceUrl) => {
    await query(maintenanceUrl, `ALTER DATABASE ${nameOf(url)}_kept RENAME TO ${nameOf(url)}`);
  },
};

/** A database of its own, and a folder for what is kept of it. */
export type Place = { url: string; maintenanceUrl: string; folder: string };

/** A drill on such a database. */
export const onOwnDatabase = (
  name: string,
  says: string,
  harm: (scenario: Scenario, round: Round, place: Place) => Promise<void>,
): Drill => ({
  name,
  says,
  stage: async (resources) => {
    const { postgres } = resources.use(await startStores({ postgres: true }));
    const url = await postgres.createDatabase();
    const folder = await mkdtemp(join(tmpdir(), "relay-kept-"));
    resources.defer(() => rm(folder, { recursive: true, force: true }));
    const place = { url, maintenanceUrl: postgres.url, folder };
    return {
      scene: { given: { postgres: url } },
      harm: (scenario, round) => harm(scenario, round, place),
    };
  },
});

/** Puts an older state in the place of the database while the system runs. */
const restored = (name: string, says: string, { keep, putBack }: Return): Drill =>
  onOwnDatabase(name, says, async (scenario, round, { url, maintenanceUrl, folder }) => {
    const before = await addChanging(round);
    await round.more(40);
    await keep(url, maintenanceUrl, folder);
    await round.untilServed();
    await round.more(40);
    const changes = await changeThings(scenario, round, before);
    await round.more(40);
    // As long as a line by hand may take to the stream.
    await pause(1_000);
    await query(maintenanceUrl, `DROP DATABASE ${nameOf(url)} WITH (FORCE)`);
    await round.more(10);
    await putBack(url, maintenanceUrl, folder);
    await round.untilServed();
    await round.more(60);
    await checkThings(round, changes);
  });

const restoredDump = restored(
  "postgres-older-dump",
  "the database is dropped and made again from an older dump, while the services run",
  dump,
);

const restoredDisk = restored(
  "postgres-older-disk",
  "the database goes back to an older copy of its files, at the same place, while the services run",
  disk,
);

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

/** Stops the primary with its sessions: connections to it stay open and say nothing, as of a machine that is gone. */
const halfOpen: Drill = {
  name: "postgres-half-open",
  says: "the primary is gone without a word to its clients, and a replica that lags is promoted",
  stage: async (resources) => {
    const pair = resources.use(await startPostgresPair());
    return {
      scene: { given: { postgres: pair.url } },
      harm: async (scenario, round) => {
        const before = await addChanging(round);
        await round.more(40);
        pair.replication.cut();
        const changes = await changeThings(scenario, round, before);
        await round.more(40);
        await pause(1_000);
        const { pid } = pair.primary;
        const sessions = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
        const all = [pid, ...sessions.map(Number)];
        for (const each of all) process.kill(each, "SIGSTOP");
        try {
          await pair.promote();
          pair.front.leadTo(pair.replica.port);
          await round.untilServed();
          await round.more(60);
          await checkThings(round, changes);
        } finally {
          // Whoever stands still hears nothing of his server's end.
          for (const each of all) process.kill(each, "SIGKILL");
          await pair.primary.kill();
        }
      },
    };
  },
};

export const postgresDrills: readonly Drill[] = [
  laggingPromotion,
  restoredDump,
  restoredDisk,
  splitBrain,
  halfOpen,
  readOnlyPrimary,
  restartedPooler,
];
