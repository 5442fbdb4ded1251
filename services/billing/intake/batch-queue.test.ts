import assert from "node:assert/strict";
import { test } from "node:test";
import { createBatchQueue, maxBatchEvents } from "./batch-queue.ts";
import type { ReadEvent, ReadMessage } from "../records/read-event.ts";

const messageOf = (events: number): ReadMessage => ({
  events: Array.from({ length: events }, () => ({}) as ReadEvent),
  rejects: [],
});

/** Whether a promise is settled after all that can run has run. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  void promise.then(() => (settled = true));
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
}

test("a message that comes alone is given out; messages that wait are given out together", async () => {
  const queue = createBatchQueue<number>();
  const taken = queue.take();
  await queue.put({ message: 1, ...messageOf(1) });
  assert.deepEqual(
    (await taken).map(({ message }) => message),
    [1],
  );
  for (const message of [2, 3, 4]) await queue.put({ message, ...messageOf(10) });
  assert.deepEqual(
    (await queue.take()).map(({ message }) => message),
    [2, 3, 4],
  );
});

test("a batch holds at most 2,000 events, but a message is never divided", async () => {
  const queue = createBatchQueue<number>();
  for (const [message, events] of [1_500, 400, 200].entries()) void queue.put({ message, ...messageOf(events) });
  assert.deepEqual(
    (await queue.take()).map(({ message }) => message),
    [0, 1],
  );
  assert.deepEqual(
    (await queue.take()).map(({ message }) => message),
    [2],
  );
  void queue.put({ message: 3, ...messageOf(3 * maxBatchEvents) });
  assert.deepEqual(
    (await queue.take()).map(({ message }) => message),
    [3],
  );
});

test("memory is bounded: who puts must wait while a batch waits, empty messages included", async () => {
  const queue = createBatchQueue<number>();
  for (let message = 0; message < maxBatchEvents - 1; message += 1) await queue.put({ message, ...messageOf(0) });
  const last = queue.put({ message: -1, ...messageOf(0) });
  assert.equal(await isSettled(last), false);
  await queue.take();
  assert.equal(await isSettled(last), true);
});

test("closing gives back what nobody took and ends both sides", async () => {
  const queue = createBatchQueue<number>();
  await queue.put({ message: 1, ...messageOf(1) });
  const blocked = queue.put({ message: 2, ...messageOf(maxBatchEvents) });
  assert.deepEqual(queue.close(), [1, 2]);
  await blocked;
  assert.deepEqual(await queue.take(), []);
});

test("after a large batch the next one gathers, after a small one and a rest it does not", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const queue = createBatchQueue<number>();
  const takeAfter = async (restMs: number): Promise<number> => {
    const taken = queue.take();
    context.mock.timers.tick(restMs - 1);
    assert.equal(await isSettled(taken), false);
    context.mock.timers.tick(1);
    return (await taken).length;
  };
  await queue.put({ message: 1, ...messageOf(1_000) });
  assert.equal(await takeAfter(5), 1);
  await queue.put({ message: 2, ...messageOf(1) });
  await queue.put({ message: 3, ...messageOf(1) });
  assert.equal(await takeAfter(250), 2);
  await queue.put({ message: 4, ...messageOf(1) });
  assert.equal(await takeAfter(10), 1);
  context.mock.timers.tick(1_000);
  await queue.put({ message: 5, ...messageOf(1) });
  assert.equal(await takeAfter(5), 1);
  void queue.put({ message: 6, ...messageOf(maxBatchEvents) });
  assert.equal((await queue.take()).length, 1);
  queue.close();
});

test("many small messages are taken before a rest is over: no more come until some are answered", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const queue = createBatchQueue<number>();
  await queue.put({ message: 0, ...messageOf(maxBatchEvents - 1) });
  const first = queue.take();
  t.mock.timers.tick(5);
  await first;
  const second = queue.take();
  for (let message = 0; message < 255; message += 1) await queue.put({ message, ...messageOf(1) });
  assert.equal(await isSettled(second), false);
  await queue.put({ message: 255, ...messageOf(1) });
  assert.equal((await second).length, 256);
  queue.close();
});
