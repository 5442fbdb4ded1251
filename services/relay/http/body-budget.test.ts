import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { createBodyBudget } from "./body-budget.ts";
import { maxBodyBytes } from "./body.ts";
import type { RawClient } from "../testing/raw-client.ts";
import { announce, announceChunks, mebibyte, startReading, write, writeChunk } from "../testing/body-reading.ts";

test("beyond the budget for bodies in flight a large body is 503, a small one is read; closing gives back", async () => {
  const budget = createBodyBudget(4 * mebibyte);
  {
    await using first = await startReading(undefined, { budget });
    await announce(first.client, 4 * mebibyte);
    await write(first.client, Buffer.alloc(3 * mebibyte));
    await until("it is counted as it has arrived", () => budget.bytes() === 3 * mebibyte);

    await using second = await startReading(undefined, { budget });
    await announce(second.client, 2 * mebibyte);
    await write(second.client, Buffer.alloc(2 * mebibyte));
    assert.deepEqual(await (await second.reading).outcome, { failure: "service_unavailable" });
    await until("the refusal is there", () => second.client.body().includes("temporarily unavailable"));
    assert.match(second.client.head(), /^HTTP\/1\.1 503 [^]*\r\nretry-after: 5\r\n/);

    await using unannounced = await startReading(undefined, { budget });
    await announceChunks(unannounced.client);
    await writeChunk(unannounced.client, mebibyte / 2);
    await until("it is counted as it grows", () => budget.bytes() === 3.5 * mebibyte);
    await writeChunk(unannounced.client, mebibyte);
    assert.deepEqual(await (await unannounced.reading).outcome, { failure: "service_unavailable" });

    await using small = await startReading(undefined, { budget });
    await announce(small.client, 65_536);
    await write(small.client, Buffer.alloc(65_536));
    assert.deepEqual(await (await small.reading).outcome, { bytes: 65_536 });
  }
  await until("all is given back", () => budget.bytes() === 0);
});

test("bodies that are announced and drip keep nobody out: they hold what they have sent", async () => {
  const budget = createBodyBudget(maxBodyBytes);
  await using resources = new AsyncDisposableStack();
  for (let count = 0; count < 8; count += 1) {
    const dripping = resources.use(await startReading(undefined, { budget }));
    await announce(dripping.client, maxBodyBytes);
    await write(dripping.client, Buffer.alloc(100_000));
  }
  await until("what they have sent is counted", () => budget.bytes() === 800_000);
  await using other = await startReading(undefined, { budget });
  await announce(other.client, 64 * mebibyte);
  await write(other.client, Buffer.alloc(64 * mebibyte));
  assert.deepEqual(await (await other.reading).outcome, { bytes: 64 * mebibyte });
});

test("of large bodies that are all half-way when the budget is spent some are refused, the others are read", async () => {
  const budget = createBodyBudget(4 * mebibyte);
  await using resources = new AsyncDisposableStack();
  const callers = [];
  for (let count = 0; count < 4; count += 1) {
    const caller = resources.use(await startReading(undefined, { budget }));
    await announce(caller.client, 2 * mebibyte);
    await write(caller.client, Buffer.alloc(mebibyte));
    callers.push(caller);
  }
  await until("the budget is spent", () => budget.bytes() === 4 * mebibyte);
  const outcomes = [];
  for (const { client, reading } of callers) {
    await write(client, Buffer.alloc(mebibyte));
    outcomes.push(await (await reading).outcome);
  }
  const [refused, read] = [{ failure: "service_unavailable" }, { bytes: 2 * mebibyte }];
  assert.deepEqual(outcomes, [refused, read, read, read]);
  assert.match(callers[0]?.client.head() ?? "", /^HTTP\/1\.1 503 [^]*\r\nretry-after: 5\r\n/);
  await until("all is given back", () => budget.bytes() === 0);
});

test("a large body that comes on too slowly is told 400 and disconnected; one that keeps up is waited for", async () => {
  const budget = createBodyBudget(512 * mebibyte);
  await using slow = await startReading(undefined, { stallMs: 200, budget });
  await announce(slow.client, mebibyte);
  await write(slow.client, Buffer.alloc(100_000));
  const reading = await slow.reading;
  let isOver = false;
  void reading.outcome.then(() => (isOver = true));
  await until("it is refused", async () => {
    if (!isOver) await write(slow.client, "x");
    return isOver;
  });
  assert.deepEqual(await reading.outcome, { failure: "malformed_request" });
  await slow.client.closed;
  assert.match(slow.client.head(), /^HTTP\/1\.1 400 [^]*\r\nconnection: close\r\n/i);
  assert.equal(budget.bytes(), 0);

  await using steady = await startReading(undefined, { stallMs: 500, budget });
  const length = 64 * mebibyte;
  await announce(steady.client, length);
  const startedAtMs = performance.now();
  let sent = 0;
  await until("more time has passed than two windows", async () => {
    sent += mebibyte;
    await write(steady.client, Buffer.alloc(mebibyte));
    return performance.now() - startedAtMs > 1_200 || sent === length;
  });
  await write(steady.client, Buffer.alloc(length - sent));
  assert.deepEqual(await (await steady.reading).outcome, { bytes: length });
});

test("a sender who stops is told 400 and disconnected; one who goes on is waited for", async () => {
  for (const begin of [(client: RawClient) => announce(client, 100), announceChunks]) {
    await using caller = await startReading(undefined, { stallMs: 200 });
    await begin(caller.client);
    assert.deepEqual(await (await caller.reading).outcome, { failure: "malformed_request" });
    await caller.client.closed;
    assert.match(caller.client.head(), /^HTTP\/1\.1 400 [^]*\r\nconnection: close\r\n/i);
    assert.match(caller.client.body().toString(), /The request could not be completed/);
  }
  await using slow = await startReading(undefined, { stallMs: 2_000 });
  await announce(slow.client, 1_000);
  const startedAtMs = performance.now();
  let sent = 0;
  await until("more time has passed than one pause may take", async () => {
    sent += 1;
    await write(slow.client, "x");
    return performance.now() - startedAtMs > 2_500;
  });
  await write(slow.client, "x".repeat(1_000 - sent));
  assert.deepEqual(await (await slow.reading).outcome, { bytes: 1_000 });
});
