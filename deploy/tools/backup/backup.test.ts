import assert from "node:assert/strict";
import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { createLog } from "#shared/process/log.ts";
import { fundsStream, usageStream } from "#shared/stores/usage-stream.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { migrateSchemas } from "../migrate/schemas.ts";
import { makeBackup } from "./backup.ts";
import { readBackupConfig } from "./config.ts";
import { putBackup } from "./restore.ts";

const resources = new AsyncDisposableStack();
after(() => resources.disposeAsync());
let url: string;
let config: ReturnType<typeof readBackupConfig>;
let connection: NatsConnection;
let folder: string;

before(async () => {
  const { postgres, nats } = resources.use(await startStores({ postgres: true, nats: true }));
  url = await postgres.createDatabase();
  await migrateSchemas(url, createLog("test", "silent"));
  connection = await connect({ servers: nats.url });
  resources.defer(() => connection.close());
  folder = await mkdtemp(join(tmpdir(), "relay-backup-"));
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  config = readBackupConfig({ DATABASE_OWNER_URL: url, NATS_URL: nats.url });
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
  const { formerDatabase, streams } = await putBackup(join(folder, "first"), config);
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
  assert.deepEqual((await putBackup(join(folder, "second"), config)).streams, { [usageStream]: "found" });
  assert.equal((await manager.streams.info(usageStream)).state.messages, 2);
  await assert.rejects(manager.streams.info(fundsStream));
});

test("a folder that is not empty takes no backup; what is damaged, unfinished or none is not restored", async () => {
  await assert.rejects(makeBackup(join(folder, "second"), config), /not empty/);
  await assert.rejects(putBackup(folder, config), /no manifest/);
  const dump = join(folder, "second/database.dump");
  await appendFile(dump, "x");
  await assert.rejects(putBackup(join(folder, "second"), config), /database.dump is not what the backup wrote/);
  const wrong = { ...config, DATABASE_OWNER_URL: url.replace(/:[^:@]+@/, ":wrong@") };
  await assert.rejects(makeBackup(join(folder, "third"), wrong), (error: Error) => !error.message.includes("wrong"));
  await assert.rejects(putBackup(join(folder, "third"), config), /no manifest/);
});
