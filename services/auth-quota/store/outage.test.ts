import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { fundedActor, newRid, startHotWorld } from "../testing/hot-world.ts";

test("holds and unconfirmed charges survive kill -9 of Redis, and operations go on where they were", async () => {
  await using world = await startHotWorld();
  const payer = await fundedActor(world.hot, 1_000);
  const [held, settled] = [newRid(), newRid()];
  await payer.reserve(held, 300);
  await payer.reserve(settled, 200);
  await payer.settle(settled, 150);
  const before = await payer.sums();

  await world.server.kill();
  await assert.rejects(payer.reserve(newRid(), 1), "without a connection an operation fails at once");
  await world.server.restart();
  await until("redis is ready again", () => world.redis.status === "ready");

  assert.deepEqual(await payer.sums(), before);
  assert.deepEqual(await payer.reserve(held, 300), { code: Verdict.OK, number: 300, text: "" });
  assert.equal(await payer.lookup(settled), CallState.SETTLED);
  assert.equal((await payer.settle(held, 100)).code, Verdict.OK);
  assert.equal((await payer.sums()).unpostedNanos, 250);
});

test("an operation under way when Redis dies fails, and is not sent again behind the caller's back", async () => {
  await using world = await startHotWorld();
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  // Redis takes no commands for a while, so that the operation is under way when the process dies.
  await world.redis.call("CLIENT", "PAUSE", "1000", "ALL");
  const asked = payer.reserve(rid, 300);
  const killed = world.server.kill();
  await assert.rejects(asked);
  await killed;
  await world.server.restart();
  await until("redis is ready again", () => world.redis.status === "ready");
  assert.equal(await payer.lookup(rid), CallState.UNSPECIFIED);
});

test("an operation that Redis does not answer in time fails, and its late answer is not taken for the next one's", async () => {
  await using world = await startHotWorld();
  const payer = await fundedActor(world.hot, 1_000);
  const [late, next] = [newRid(), newRid()];
  await world.redis.call("CLIENT", "PAUSE", "2200", "ALL");
  await assert.rejects(payer.reserve(late, 300), /timed out/);
  assert.deepEqual(await payer.reserve(next, 200), { code: Verdict.OK, number: 200, text: "" });
  assert.equal(await payer.lookup(late), CallState.HELD);
});

test("a Redis without memory refuses a whole batch before it changes anything", async () => {
  await using world = await startHotWorld();
  const payer = await fundedActor(world.hot, 1_000);
  const [first, second] = [newRid(), newRid()];
  await payer.reserve(first, 100);
  const before = await payer.sums();
  await world.redis.config("SET", "maxmemory", "1mb");
  const settle = ["settle", first, payer.account, payer.key, "40", Buffer.from("r")] as const;
  const reserve = ["reserve", second, String(Date.now()), "", payer.key, payer.account, "m", "10", ""] as const;
  await assert.rejects(world.hot.apply(payer.session, [settle, reserve]), /OOM/);
  assert.deepEqual(await payer.sums(), before);
  await world.redis.config("SET", "maxmemory", "0");
  assert.equal(await payer.lookup(first), CallState.HELD);
  assert.equal((await payer.settle(first, 40)).code, Verdict.OK);
});

test("after SCRIPT FLUSH the script is loaded again by itself", async () => {
  await using world = await startHotWorld();
  const payer = await fundedActor(world.hot, 1_000);
  await world.redis.script("FLUSH");
  assert.equal((await payer.reserve(newRid(), 100)).code, Verdict.OK);
});

test("runs that overtake each other after SCRIPT FLUSH lose nothing, and are not taken for a loss", async () => {
  await using world = await startHotWorld();
  const payer = await fundedActor(world.hot, 1_000);
  const generation = world.hot.generation();
  const granted: Promise<{ code: number }>[] = [];
  for (let count = 0; count < 40; count += 1) {
    if (count % 10 === 0) void world.redis.script("FLUSH");
    granted.push(payer.reserve(newRid(), 10));
    if (count % 4 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  for (const { code } of await Promise.all(granted)) assert.equal(code, Verdict.OK);
  assert.equal((await payer.sums()).heldNanos, 400);
  assert.equal(world.hot.generation(), generation);
});

test("all keys lie in one slot of Redis Cluster", async () => {
  await using world = await startHotWorld();
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 100, { ip: "192.0.2.1" });
  await payer.settle(rid, 40);
  await world.hot.listUnposted(1, 10);
  const names = await world.redis.keys("*");
  assert.ok(names.length >= 6);
  for (const name of names) assert.ok(name.startsWith("{auth-quota}:"), name);
});
