import assert from "node:assert/strict";
import { test } from "node:test";
import { createBodyBudget } from "../http/body-budget.ts";
import { Intake } from "./intake.ts";

const kib = 1_024;
const shareOf = (budget: ReturnType<typeof createBodyBudget>) =>
  budget.share({ destroyed: false, once: () => undefined as never }, { address: "a", accountId: "a" });

test("a small frame counts nothing, a large one as it arrives and while it waits", () => {
  const budget = createBodyBudget(1_000 * kib);
  const intake = new Intake(shareOf(budget));
  assert.ok(intake.arrive(64 * kib));
  assert.equal(budget.bytes(), 0);
  assert.ok(intake.arrive(kib));
  assert.equal(budget.bytes(), 65 * kib);
  assert.ok(intake.wait(65 * kib));
  assert.equal(budget.bytes(), 65 * kib);
  assert.ok(intake.arrive(100 * kib));
  assert.equal(budget.bytes(), 165 * kib, "the next one beside it");
  intake.leave(65 * kib);
  assert.equal(budget.bytes(), 100 * kib);
  intake.release();
  assert.equal(budget.bytes(), 0);
});

test("there is no room beyond the account's share of the budget", () => {
  const intake = new Intake(shareOf(createBodyBudget(1_000 * kib)));
  assert.ok(intake.arrive(700 * kib));
  assert.ok(!intake.arrive(200 * kib));
});

test("a large frame comes on by 512 KiB in 30 s, or its sender is slow", () => {
  const intake = new Intake(shareOf(createBodyBudget(100_000 * kib)));
  const now = performance.now();
  assert.ok(!intake.isSlow(now + 31_000), "nothing is on its way");
  intake.arrive(65 * kib);
  assert.ok(intake.isSlow(now + 100_000));
  intake.arrive(600 * kib);
  assert.ok(!intake.isSlow(now + 140_000));
  intake.arrive(10 * kib);
  assert.ok(intake.isSlow(now + 180_000), "it drips");
  intake.wait(675 * kib);
  assert.ok(!intake.isSlow(now + 220_000), "it is whole");
});
