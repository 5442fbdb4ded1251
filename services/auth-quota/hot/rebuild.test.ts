import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { v7 } from "uuid";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { holdSecret, readProofKeys } from "#shared/money/hold-proof.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { until } from "#shared/testing/until.ts";
import { startAppWorld, type AppEnvironment, type Payer } from "../testing/app-world.ts";
import type { RelayLine } from "../testing/relay-line.ts";

let world: AppEnvironment;
before(async () => {
  world = await startAppWorld();
});
after(() => world[Symbol.asyncDispose]());

async function loseRedis(): Promise<void> {
  const redis = new Redis(world.stores.redis.url);
  await redis.flushall();
  await redis.quit();
}

/** Waits until it is written down up to where the stream must be booked. */
async function untilNoted(sequence: string): Promise<void> {
  await using resources = new AsyncDisposableStack();
  const redis = new Redis(world.stores.redis.url);
  resources.defer(() => redis.disconnect());
  const noted = () => redis.hget("{auth-quota}:service", "gate_sequence");
  await until(`sequence ${sequence} is noted`, async () => (await noted()) === sequence);
}

const record = Buffer.from("a usage record");

async function reserve(line: RelayLine, { keyHash }: Payer, estimateNanos = 100n): Promise<Verdict> {
  const value = { rid: v7(), keyHash, ip: "", model: "m", estimateNanos };
  const [result] = await line.send([{ case: "reserve", value }]);
  return result?.verdict ?? Verdict.UNSPECIFIED;
}

const [proofKey] = readProofKeys(holdProofKeys);

const untilGranted = (line: RelayLine, payer: Payer): Promise<boolean> =>
  until("calls are granted", async () => (await reserve(line, payer)) === Verdict.OK);

test("Redis emptied: 503 until holds are restored and the stream is booked, then everything goes on by itself", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_rebuild");
  await using second = await world.startReplica();
  using otherLine = second.openLine("relay_rebuild_other");
  assert.equal(await reserve(line, payer), Verdict.OK);
  world.billing.progress = { lastSequence: 40n, bookedSequence: 39n };
  await loseRedis();
  const rid = v7();
  const { accountId, keyId } = payer;
  await until("a hold can be restored", async () => {
    const secret = holdSecret(proofKey, { rid, accountId, keyId });
    const value = { rid, accountId, keyId, heldNanos: 300n, costNanos: 120n, record, holdSecret: secret };
    const [result] = await line.send([{ case: "restore", value }]);
    return result?.verdict === Verdict.OK;
  });
  await untilNoted("40");
  // One message of before the loss is not booked: what is available is not known yet.
  world.billing.progress = { lastSequence: 60n, bookedSequence: 39n };
  await until("the recovery lock is told to be closed for longer than relays need", async () => {
    const text = await (await fetch(`http://127.0.0.1:${world.first.app.opsPort}/metrics`)).text();
    return Number(/^auth_quota_gate_closed_seconds\S* (\S+)$/m.exec(text)?.[1]) > 0.6;
  });
  assert.equal(await reserve(line, payer), Verdict.UNAVAILABLE);
  assert.equal(await reserve(otherLine, payer), Verdict.UNAVAILABLE);
  world.billing.progress = { lastSequence: 60n, bookedSequence: 40n };
  await untilGranted(line, payer);
  assert.equal(await reserve(otherLine, payer), Verdict.OK);
  const { heldNanos, availableNanos } = await world.first.admin.getHolds({ accountId });
  assert.ok(heldNanos >= 500n, "the restored hold is among them");
  assert.equal(availableNanos, 1_000n - heldNanos);
});

test("without billing the recovery lock stays closed; a stream that lost its data too does not keep it closed", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_gate");
  world.billing.progress = { lastSequence: 500n, bookedSequence: 400n };
  assert.equal(await reserve(line, payer), Verdict.OK);
  await loseRedis();
  await untilNoted("500");
  world.billing.isDown = true;
  assert.equal(await reserve(line, payer), Verdict.UNAVAILABLE);
  world.billing.progress = { lastSequence: 3n, bookedSequence: 3n };
  world.billing.isDown = false;
  await untilGranted(line, payer);
});

test("every response names the generation, and a loss changes it", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_generation");
  await untilGranted(line, payer);
  const before = line.generation();
  assert.notEqual(before, "");
  assert.equal(await reserve(line, payer), Verdict.OK);
  assert.equal(line.generation(), before);
  await loseRedis();
  await until("another generation", async () => {
    await reserve(line, payer);
    return line.generation() !== "" && line.generation() !== before;
  });
});

/** How often a single field was read, by anybody; each look at a retired store reads one. */
const countReads = async (redis: Redis): Promise<number> =>
  Number(/^cmdstat_hget:calls=(\d+)/m.exec(await redis.info("commandstats"))?.[1] ?? 0);

test("a Redis that has evicted keys grants nothing until it is emptied and evicts no more", async () => {
  await using resources = new AsyncDisposableStack();
  const redis = new Redis(world.stores.redis.url);
  resources.defer(() => redis.disconnect());
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_evicted");
  await untilGranted(line, payer);
  await redis.config("SET", "maxmemory-policy", "allkeys-random");
  await redis.config("SET", "maxmemory", "4mb");
  await until("keys are gone", async () => {
    await redis.mset(Object.fromEntries(Array.from({ length: 500 }, () => [`other:${v7()}`, "x".repeat(500)])));
    return !/^evicted_keys:0\s/m.test(await redis.info("stats"));
  });
  await until("nothing is granted", async () => (await reserve(line, payer)) === Verdict.UNAVAILABLE);
  await redis.config("SET", "maxmemory-policy", "noeviction");
  await redis.config("SET", "maxmemory", "0");
  await until("the service says what to do", () => /Redis has evicted keys/.test(world.logText()));
  const before = await countReads(redis);
  await until("it was looked at some times more", async () => (await countReads(redis)) > before + 3);
  assert.equal(await reserve(line, payer), Verdict.UNAVAILABLE, "what is left fits together no more");
  await redis.flushall();
  await untilGranted(line, payer);
});
