import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { createBodyBudget, type BodyBudget, type BodyOwner } from "./body-budget.ts";
import { maxBodyBytes } from "./body.ts";
import type { RawClient } from "../testing/raw-client.ts";
import { announce, announceChunks, mebibyte, startReading, write, writeChunk } from "../testing/body-reading.ts";

const mine = { accountId: "acct_1", address: "192.0.2.1" };
const other = { accountId: "acct_2", address: "192.0.2.2" };

/** Claims piece by piece as much as an owner gets. */
function fill(budget: BodyBudget, owner: BodyOwner, piece = mebibyte): number {
  const share = budget.share(new Writable(), owner);
  let bytes = 0;
  while (share.claim(bytes + piece)) bytes += piece;
  return bytes / mebibyte;
}

test("one account gets four fifths of the budget, whatever its addresses; whoever comes next gets some", () => {
  const budget = createBodyBudget(256 * mebibyte);
  assert.equal(fill(budget, mine), 204);
  assert.equal(fill(budget, { ...mine, address: "192.0.2.9" }), 0);
  assert.equal(fill(budget, { ...other, address: mine.address }), 0, "nor does its address with another key");
  assert.deepEqual([fill(budget, other), fill(budget, { accountId: "acct_3", address: "192.0.2.3" })], [41, 8]);
});

test("all whose key is not known share a fifth, and count as their account from when it is", () => {
  const budget = createBodyBudget(256 * mebibyte);
  const owner = { accountId: "", address: "192.0.2.3" };
  const share = budget.share(new Writable(), owner);
  assert.ok(share.claim(51 * mebibyte));
  assert.equal(fill(budget, { accountId: "", address: "192.0.2.4" }), 0);
  assert.equal(share.claim(52 * mebibyte), false);
  assert.equal(fill(budget, mine), 164);
  owner.accountId = other.accountId;
  assert.ok(share.claim(60 * mebibyte));
  assert.equal(fill(budget, { accountId: "", address: "192.0.2.4" }), 6, "strangers hold none of it any more");
  share.release();
  assert.equal(fill(budget, other), 68);
});

test("an answer that closes gives back what its body held, and its share of the account", () => {
  const budget = createBodyBudget(mebibyte);
  const answer = new Writable();
  const share = budget.share(answer, mine);
  assert.ok(share.claim(700_000));
  assert.equal(budget.share(new Writable(), mine).claim(200_000), false);
  answer.emit("close");
  assert.equal(budget.bytes(), 0);
  assert.ok(budget.share(new Writable(), mine).claim(800_000));
});

test("beyond what the budget leaves a caller a large body is 503, a small one is read; closing gives back", async () => {
  const budget = createBodyBudget(5 * mebibyte);
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

    await using unannounced = await startReading(undefined, { budget, ...other });
    await announceChunks(unannounced.client);
    await writeChunk(unannounced.client, mebibyte / 2);
    await until("it is counted as it grows", () => budget.bytes() === 3.5 * mebibyte);
    await writeChunk(unannounced.client, 2 * mebibyte);
    assert.deepEqual(await (await unannounced.reading).outcome, { failure: "service_unavailable" });

    await using small = await startReading(undefined, { budget });
    await announce(small.client, 65_536);
    await write(small.client, Buffer.alloc(65_536));
    assert.deepEqual(await (await small.reading).outcome, { bytes: 65_536 });
  }
  await until("all is given back", () => budget.bytes() === 0);
});

test("where strangers hold their share, a small body that comes in pieces is read behind its key", async () => {
  const budget = createBodyBudget(5 * mebibyte);
  budget.share(new Writable(), { accountId: "", address: "192.0.2.5" }).claim(mebibyte);
  await using caller = await startReading(undefined, { budget });
  await announce(caller.client, 2_000);
  await write(caller.client, Buffer.alloc(1_000));
  const reading = await caller.reading;
  await until("the key is asked for", () => reading.keyChecks === 1);
  await write(caller.client, Buffer.alloc(1_000));
  assert.deepEqual(await reading.outcome, { bytes: 2_000 });
});

test("two bodies of 128 MB that are announced and drip cost nobody else anything", async () => {
  const budget = createBodyBudget(256 * mebibyte);
  await using resources = new AsyncDisposableStack();
  for (let count = 0; count < 2; count += 1) {
    const dripping = resources.use(await startReading(undefined, { budget }));
    await announce(dripping.client, maxBodyBytes);
    await write(dripping.client, Buffer.alloc(100_000));
  }
  await until("what they have sent is counted", () => budget.bytes() === 200_000);
  await using large = await startReading(undefined, { budget, ...other });
  await announce(large.client, maxBodyBytes);
  await write(large.client, Buffer.alloc(maxBodyBytes));
  assert.deepEqual(await (await large.reading).outcome, { bytes: maxBodyBytes });
});

test("of large bodies that are all half-way when the budget is spent some are refused, the others are read", async () => {
  const budget = createBodyBudget(8 * mebibyte);
  await using resources = new AsyncDisposableStack();
  const callers = [];
  for (let count = 0; count < 4; count += 1) {
    const own = { accountId: `acct_${count}`, address: `192.0.2.${count}` };
    const caller = resources.use(await startReading(undefined, { budget, ...own }));
    await announce(caller.client, 3 * mebibyte);
    await write(caller.client, Buffer.alloc(1.5 * mebibyte));
    callers.push(caller);
  }
  await until("little is left", () => budget.bytes() === 6 * mebibyte);
  const outcomes = [];
  for (const { client, reading } of callers) {
    await write(client, Buffer.alloc(1.5 * mebibyte));
    outcomes.push(await (await reading).outcome);
  }
  const [refused, read] = [{ failure: "service_unavailable" }, { bytes: 3 * mebibyte }];
  assert.deepEqual(outcomes, [refused, read, read, read]);
  assert.match(callers[0]?.client.head() ?? "", /^HTTP\/1\.1 503 [^]*\r\nretry-after: 5\r\n/);
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
