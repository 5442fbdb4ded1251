import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { chmod, mkdtemp, readdir, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { query } from "./postgres.ts";
import { startStores } from "./stores.ts";
import { until } from "./until.ts";

test("Redis keeps what it has written through kill -9 and serves it again on the same port", async () => {
  await using stores = await startStores({ redis: true });
  using redis = disposable(new Redis(stores.redis.url));
  await redis.set("kept", "yes");
  await stores.redis.kill();
  assert.equal(stores.redis.isRunning(), false);
  await stores.redis.restart();
  assert.equal(await redis.get("kept"), "yes");
});

test("NATS keeps acknowledged messages through kill -9 and serves them again on the same port", async () => {
  await using stores = await startStores({ nats: true });
  const count = async (): Promise<number> => {
    const connection = await connect({ servers: stores.nats.url });
    try {
      const manager = await jetstreamManager(connection);
      return (await manager.streams.info("KEPT")).state.messages;
    } finally {
      await connection.close();
    }
  };
  const connection = await connect({ servers: stores.nats.url, reconnect: false });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: "KEPT", subjects: ["kept"] });
  await jetstream(connection).publish("kept", "one");
  const pidBefore = stores.nats.pid;
  await stores.nats.kill();
  await connection.closed();
  await stores.nats.restart();
  assert.notEqual(stores.nats.pid, pidBefore);
  assert.equal(await count(), 1);
});

test("PostgreSQL keeps committed rows through kill -9 and serves them again on the same port", async () => {
  await using stores = await startStores({ postgres: true });
  const url = await stores.postgres.createDatabase();
  const otherUrl = await stores.postgres.createDatabase();
  await query(url, "create table kept as select 7 as number");
  await stores.postgres.kill();
  await stores.postgres.restart();
  assert.deepEqual((await query(url, "select number from kept")).rows, [{ number: 7 }]);
  await assert.rejects(query(otherUrl, "select number from kept"), /does not exist/);
});

test("a copy of a database has its rows and is apart from it", async () => {
  await using stores = await startStores({ postgres: true });
  const url = await stores.postgres.createDatabase();
  await query(url, "create table kept as select 7 as number");
  const copyUrl = await stores.postgres.createDatabase(url);
  await query(copyUrl, "update kept set number = number + 1");
  const numbers = await Promise.all([url, copyUrl].map((one) => query(one, "select number from kept")));
  assert.deepEqual(
    numbers.map(({ rows }) => rows),
    [[{ number: 7 }], [{ number: 8 }]],
  );
});

test("stores and their data are gone when whoever started them is killed with SIGKILL", async () => {
  const script = `
    import { startStores } from "#shared/testing/stores.ts";
    const { redis, nats, postgres } = await startStores({ redis: true, nats: true, postgres: true });
    process.stdout.write([redis.pid, nats.pid, postgres.pid].join(" ") + "\\n");
    await new Promise(() => setInterval(() => {}, 1000));
  `;
  const folder = await mkdtemp(join(tmpdir(), "relay-orphans-"));
  await chmod(folder, 0o711);
  const starter = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(createInterface({ input: starter.stdout }), "line")) as [string];
  const pids = line.split(" ").map(Number);
  assert.equal(pids.length, 3);
  assert.equal((await readdir(folder)).length, 1);
  assert.ok(pids.every(isAlive));
  starter.kill("SIGKILL");
  await until("all stores have ended", () => !pids.some(isAlive), 20_000);
  await until("their data is deleted", async () => (await readdir(folder)).length === 0);
  await rmdir(folder);
});

// A process whose parent died may stay in the table as a zombie for a while: its folder in /proc tells.
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync("/proc/self") || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

function disposable(redis: Redis): Redis & Disposable {
  redis.on("error", () => undefined);
  return Object.assign(redis, { [Symbol.dispose]: () => redis.disconnect() });
}
