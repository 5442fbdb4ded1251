import assert from "node:assert/strict";
import { test } from "node:test";
import { createSlots, type Slots } from "./slots.ts";

/** Takes as many slots as an account gets. */
function fill(slots: Slots, account: string): number {
  let count = 0;
  for (; slots.hasRoomFor(account); count += 1) slots.take(account);
  return count;
}

/** Waits for a slot, and notes in `served` who got it. */
const queueUp = (slots: Slots, account: string, served: string[]) =>
  slots.wait(account, () => {
    slots.take(account);
    served.push(account);
  });

test("one account gets four fifths of the slots, and whoever comes next finds some", () => {
  const slots = createSlots(1_280);
  const got = ["a", "b", "c", "d"].map((account) => fill(slots, account));
  assert.deepEqual(got, [1_024, 205, 41, 8]);
  for (let count = 0; count < 1_024; count += 1) slots.leave("a");
  assert.equal(slots.taken(), 254);
  assert.equal(fill(slots, "a"), 821);
});

test("a narrow upstream gives one account what there is", () => {
  const got = [1, 2, 3, 4, 5, 10].map((most) => fill(createSlots(most), "a"));
  assert.deepEqual(got, [1, 2, 3, 4, 4, 8]);
});

test("accounts take turns, however many calls one of them has in the queue", () => {
  const slots = createSlots(5);
  const served: string[] = [];
  for (let count = 0; count < 5; count += 1) slots.take(`other ${count}`);
  for (const account of ["a", "a", "a", "b", "c"]) assert.ok(queueUp(slots, account, served), account);
  for (let count = 0; count < 4; count += 1) slots.leave(`other ${count}`);
  assert.deepEqual(served, ["a", "b", "c", "a"]);
  slots.leave("b");
  assert.deepEqual(served, ["a", "b", "c", "a", "a"]);
});

test("the queue has as many places as there are slots, shared by the same rule; who leaves it makes room", () => {
  const slots = createSlots(10);
  while (slots.taken() < 10) slots.take("other");
  const served: string[] = [];
  const waitAll = (account: string) => {
    const cancels = [];
    for (let cancel = queueUp(slots, account, served); cancel; cancel = queueUp(slots, account, served))
      cancels.push(cancel);
    return cancels;
  };
  const [first, second] = [waitAll("a"), waitAll("b")];
  assert.deepEqual([first.length, second.length], [8, 2]);
  assert.equal(queueUp(slots, "c", served), undefined);
  first[0]?.();
  first[0]?.();
  assert.ok(queueUp(slots, "c", served));
  for (const cancel of [...first, ...second]) cancel();
  slots.leave("other");
  assert.deepEqual(served, ["c"]);
});

test("a slot that comes free goes to an account that may have it, not to the one in front", () => {
  const slots = createSlots(10);
  const served: string[] = [];
  assert.equal(fill(slots, "a"), 8);
  for (let count = 0; count < 2; count += 1) slots.take("b");
  for (const account of ["a", "c"]) queueUp(slots, account, served);
  slots.leave("b");
  assert.deepEqual(served, ["c"]);
});
