import assert from "node:assert/strict";
import { test } from "node:test";
import { formatVerdict, isRight, sumOf, type Verdict } from "./verdict.ts";

const right: Verdict = {
  name: "one",
  kills: 2,
  faults: 1,
  report: {
    calls: 10,
    served: 7,
    booked: 7,
    missing: 0,
    double: 0,
    overcharged: 0,
    overspentNanos: 5n,
    broken: 1,
    forgoneNanos: 30n,
    losses: [{ rid: "rid_1", nanos: 30n, boundNanos: 10_000_000n }],
    problems: [],
  },
};

test("a sum adds every count and keeps every loss", () => {
  const { report, kills, faults } = sumOf("all", [right, right]);
  assert.deepEqual([kills, faults, report.losses.length], [4, 2, 2]);
  const { calls, served, booked, overspentNanos, broken, forgoneNanos } = report;
  assert.deepEqual([calls, served, booked, overspentNanos, broken, forgoneNanos], [20, 14, 14, 10n, 2, 60n]);
  assert.equal(right.report.losses.length, 1, "what is summed stays as it was");
});

test("one part that is wrong makes the whole wrong", () => {
  assert.equal(isRight(right), true);
  const wrongs: Partial<Verdict["report"]>[] = [{ missing: 1 }, { double: 1 }, { problems: ["something"] }];
  for (const wrong of wrongs) {
    const part = { ...right, report: { ...right.report, ...wrong } };
    assert.equal(isRight(sumOf("all", [right, part, right])), false, Object.keys(wrong).join());
  }
});

test("losses are listed with their bounds, problems always", () => {
  const wrong = { ...right, report: { ...right.report, problems: ["something is missing"] } };
  const text = formatVerdict(wrong, true);
  assert.match(text, /^WRONG {2}one: kills 2, faults 1, calls 10, .*1 calls lost 0\.000000030 USD with their relays$/m);
  assert.match(text, /^ {2}lost rid_1: 0\.000000030 USD of at most 0\.010000000$/m);
  assert.match(text, /^ {2}!!! something is missing$/m);
  assert.doesNotMatch(formatVerdict(right, false), /rid_1/);
});
