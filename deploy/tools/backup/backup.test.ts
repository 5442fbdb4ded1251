import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { appendFile, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { createLog } from "#shared/process/log.ts";
import { fundsStream, usageStream } from "#shared/stores/usage-stream.ts";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { natsProgram } from "#shared/testing/nats.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStore } from "#shared/testing/store.ts";
import { startStores } from "#shared/testing/stores.ts";
import { connect as connectOwner, ensureBackupLogin } from "../migrate/logins.ts";
import { schemas } from "../migrate/names.ts";
import { migrateSchemas } from "../migrate/schemas.ts";
import { makeBackup } from "./backup.ts";
import { dropOldBackups } from "./keep.ts";
import { readBackupConfig, readRestoreConfig } from "./config.ts";
import { putBackup } from "./restore.ts";

const resources = new AsyncDisposableStack();
after(() => resources.disposeAsync());
let url: string;
let config: ReturnType<typeof readBackupConfig>;
let restoring: ReturnType<typeof readRestoreConfig>;
let connection: NatsConnection;
let folder: string;

/** The users of deploy/stores/, with those for backups among them and their names for passwords. */
function natsUsers(): string {
  const textOf = (name: string): string => readFileSync(join(import.meta.dirname, "../../stores", name), "utf8");
  const own = `{ user: owner, password: owner }\n${textOf("nats-backup-users.conf")}`;
  const users = textOf("nats-users.conf").replace("users = [", () => `users = [\n${own}`);
  return users.replaceAll(/\$NATS_(\w+)_PASSWORD/g, (_, name: string) => name.toLowerCase());
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "relay-backup-"));
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  const binary = findStoreBinary("nats");
  assert.ok(binary);
  const place = { binary, folder: join(folder, "nats"), orphanSignal: "SIGKILL" as const };
  const nats = resources.use(await startStore(natsProgram(place, natsUsers())));
  const { postgres } = resources.use(await startStores({ postgres: true }));
  url = await postgres.createDatabase();
  await migrateSchemas(url, createLog("test", "silent"));
  const login = Object.assign(new URL(url), { username: "backup_login", password: "secret" });
  await using owner = await connectOwner(url);
  assert.equal(await ensureBackupLogin(owner, login.href, schemas), "made");
  const asUser = (user: string): string => nats.url.replace("//", `//${user}:${user}@`);
  connection = await connect({ servers: nats.url, user: "owner", pass: "owner" });
  resources.defer(() => connection.close());
  config = readBackupConfig({ BACKUP_DATABASE_URL: login.href, NATS_URL: asUser("backup") });
  restoring = readRestoreConfig({ DATABASE_OWNER_URL: url, NATS_URL: asUser("restore") });
});

test("a backup brings database and streams back, with the API closed, and keeps what was in its place", async () => {
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: usageStream, subjects: ["usage.v1.>"] });
  await manager.consumers.add(usageStream, { durable_name: "billing", ack_policy: "explicit" });
  const texts = Array.from({ length: 3 }, (_, index) => `${index} `.repeat(200_000));
  for (const text of texts) await jetstream(connection).publish("usage.v1.recorded", text);
  await query(url, "INSERT INTO auth_quota.account (account_id, name) VALUES ('kept', 'kept')");
  const { manifest, streamSinceMs } = await makeBackup(join(folder, "first"), config);
  assert.deepEqual(Object.keys(manifest.streams), [usageStream]);
  assert.equal(streamSinceMs, undefined, "it holds everything");

  await query(url, "INSERT INTO auth_quota.account (account_id, name) VALUES ('made since', '')").catch(
    () => undefined,
  );
  await query(url, "UPDATE auth_quota.account SET name = 'changed'");
  await manager.streams.delete(usageStream);
  const { formerDatabase, streams } = await putBackup(join(folder, "first"), restoring);
  assert.deepEqual(streams, { [usageStream]: "made" });
  const names = "SELECT name, is_maintenance FROM auth_quota.account, auth_quota.maintenance";
  assert.deepEqual((await query(url, names)).rows, [{ name: "kept", is_maintenance: true }]);
  assert.ok(formerDatabase);
  const kept = `SELECT datallowconn FROM pg_database WHERE datname = '${formerDatabase}'`;
  assert.deepEqual((await query(url, kept)).rows, [{ datallowconn: false }]);
  const { state } = await manager.streams.info(usageStream);
  assert.equal(state.messages, 3);
  assert.equal((await manager.streams.getMessage(usageStream, { seq: 2 }))?.string(), texts[1]);
  assert.equal((await manager.consumers.info(usageStream, "billing")).num_pending, 3);
});

test("streams that are there are left alone, and one that has dropped messages says since when it holds all", async () => {
  const manager = await jetstreamManager(connection);
  await manager.streams.purge(usageStream, { keep: 1 });
  const { streamSinceMs } = await makeBackup(join(folder, "second"), config);
  assert.ok(Number(streamSinceMs) > Date.now() - 3_600_000);
  await jetstream(connection).publish("usage.v1.recorded", "since");
  assert.deepEqual((await putBackup(join(folder, "second"), restoring)).streams, { [usageStream]: "found" });
  assert.equal((await manager.streams.info(usageStream)).state.messages, 2);
  await assert.rejects(manager.streams.info(fundsStream));
});

test("a folder that is not empty takes no backup; what is damaged, unfinished or none is not restored", async () => {
  await assert.rejects(makeBackup(join(folder, "second"), config), /not empty/);
  await assert.rejects(putBackup(folder, restoring), /no manifest/);
  const dump = join(folder, "second/database.dump");
  await appendFile(dump, "x");
  await assert.rejects(putBackup(join(folder, "second"), restoring), /database.dump is not what the backup wrote/);
  const wrong = { ...config, databaseUrl: config.databaseUrl.replace(":secret@", ":wrong@") };
  await assert.rejects(makeBackup(join(folder, "third"), wrong), (error: Error) => !error.message.includes("wrong"));
  await assert.rejects(putBackup(join(folder, "third"), restoring), /no manifest/);
  assert.deepEqual(await readdir(join(folder, "third")), []);
});

test("the login for backups reads every table and sequence, and can change none", async () => {
  const reads = `SELECT count(*) FILTER (WHERE NOT has_table_privilege(oid, 'SELECT'))::int AS unread,
      count(*) FILTER (WHERE has_table_privilege(oid, 'INSERT,UPDATE,DELETE,TRUNCATE'))::int AS written,
      count(*) > 20 AS many
    FROM pg_class WHERE relkind IN ('r', 'p', 'S') AND relnamespace::regnamespace::text = ANY('{${schemas.join()}}')`;
  assert.deepEqual((await query(config.databaseUrl, reads)).rows, [{ unread: 0, written: 0, many: true }]);
});

test("older whole backups are deleted; the newest ones, and what is no backup, stay", async () => {
  const place = join(folder, "kept");
  for (const name of ["one", "two", "three"]) await makeBackup(join(place, name), { ...config, NATS_URL: "" });
  await mkdir(join(place, "other"));
  assert.deepEqual(await dropOldBackups(join(place, "three"), 2), ["one"]);
  assert.deepEqual((await readdir(place)).toSorted(), ["other", "three", "two"]);
  // The one just made stays, however old another's time makes it.
  assert.deepEqual(await dropOldBackups(join(place, "two"), 1), ["three"]);
  assert.deepEqual((await readdir(place)).toSorted(), ["other", "two"]);
});
