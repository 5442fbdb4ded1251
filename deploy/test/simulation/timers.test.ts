import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom } from "./random.ts";
import { createTimers, type Timer } from "./timers.ts";

function timer(atMs: number, number: number, more: Partial<Timer> = {}): Timer {
  return { atMs, number, isImmediate: false, everyMs: undefined, work: () => undefined, isOver: () => false, ...more };
}

function takeAll(timers: ReturnType<typeof createTimers>): Timer[] {
  const taken: Timer[] = [];
  for (let next = timers.take(); next; next = timers.take()) taken.push(next);
  return taken;
}

test("timers come by time, at one instant by the order in which they were set, what is immediate first", () => {
  const random = createRandom(1);
  const timers = createTimers();
  const all = Array.from({ length: 500 }, (_, number) =>
    timer(random.between(0, 50), number, { isImmediate: random.chance(0.2) }),
  );
  for (const one of all) timers.add(one);
  const rank = ({ atMs, isImmediate, number }: Timer): number => (atMs * 2 + (isImmediate ? 0 : 1)) * 1_000 + number;
  assert.deepEqual(
    takeAll(timers),
    all.toSorted((one, other) => rank(one) - rank(other)),
  );
});

test("what is over is left out; what is delayed comes then, in its order", () => {
  const timers = createTimers();
  const [first, second, third] = [timer(5, 1), timer(3, 2), timer(30, 3)];
  for (const one of [third, first, second, timer(1, 4, { isOver: () => true })]) timers.add(one);
  timers.delay(20);
  assert.deepEqual(takeAll(timers), [first, second, third]);
  assert.deepEqual([first.atMs, second.atMs, third.atMs], [20, 20, 30]);
});
