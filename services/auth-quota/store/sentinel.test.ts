import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Redis } from "ioredis";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import { fundedActor, newRid, silentLog } from "../testing/hot-world.ts";
import { startRedisSentinel } from "../testing/redis-sentinel.ts";
import { createHotStore } from "./hot.ts";
import { connectRedis } from "./redis.ts";

const limits = { accountPerMinute: 1_000_000, ipPerMinute: 1_000_000, accountConcurrent: 0 };
const resources = new AsyncDisposableStack();
after(() => resources.disposeAsync());
const servers = resources.use(await startRedisSentinel({ password: "p,ss:word", sentinelPassword: "w@tch" }));
const redis = resources.use(connectRedis(servers.url, silentLog));
await until("redis is ready", () => redis.status === "ready");
const hot = createHotStore(redis, limits);
await hot.establish(false);
const isClosed = async (): Promise<boolean> => (await hot.readRecoveryLock())?.closedMs !== undefined;
const portOf = (): number => (redis.stream as { remotePort?: number }).remotePort ?? 0;
const untilAnswered = <T>(ask: () => Promise<T>): Promise<T> => until("Redis answers", ask, 30_000);

test("a killed master that has lost nothing is followed by the one that the Sentinels name", async () => {
  const payer = await fundedActor(hot, 1_000);
  assert.equal(portOf(), servers.master.port);
  assert.equal((await payer.reserve(newRid(), 300)).code, Verdict.OK);
  await until("the replica follows", async () => (await servers.master.admin.wait(1, 1_000)) === 1);
  const generation = hot.generation();
  await servers.master.kill();
  const { code } = await untilAnswered(() => payer.reserve(newRid(), 800));
  assert.equal(code, Verdict.BALANCE, "the first hold is known");
  assert.equal(portOf(), servers.replica.port);
  assert.deepEqual([hot.generation(), await isClosed()], [generation, false]);
  await servers.master.restart();
});

test("a replica that lags is promoted: the loss is found and nothing more is granted", async () => {
  const payer = await fundedActor(hot, 1_000);
  await until("the former master follows", async () => (await servers.replica.admin.wait(1, 1_000)) === 1, 30_000);
  const generation = hot.generation();
  process.kill(servers.master.pid, "SIGSTOP");
  await servers.replica.admin.client("KILL", "TYPE", "REPLICA");
  assert.equal((await payer.reserve(newRid(), 700)).code, Verdict.OK, "known to one only");
  await servers.replica.kill();
  process.kill(servers.master.pid, "SIGCONT");
  const { code } = await untilAnswered(() => payer.reserve(newRid(), 700));
  assert.equal(code, Verdict.UNAVAILABLE, "it would be granted twice");
  assert.notEqual(hot.generation(), generation);
  assert.equal(await isClosed(), true);
});

test("a master that still answers is left when the Sentinels name another", async () => {
  await servers.replica.restart();
  await servers.replica.admin.call("REPLICAOF", "NO", "ONE");
  assert.equal(portOf(), servers.master.port);
  for (const { url } of servers.sentinels) {
    const admin = new Redis(url, { password: "w@tch" });
    await admin.call("SENTINEL", "REMOVE", "money");
    await admin.call("SENTINEL", "MONITOR", "money", "127.0.0.1", String(servers.replica.port), "2");
    admin.disconnect();
  }
  await until("the connection leads to the other", () => portOf() === servers.replica.port, 30_000);
});
