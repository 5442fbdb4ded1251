import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, isFailure, marginOf, renderFindings, toBaseline } from "./baseline.ts";
import type { Spread } from "./statistics.ts";

const spread = (median: number, min = median, max = median): Spread => ({ median, min, max });

test("the margin is a tenth, or as much as the rounds were apart", () => {
  assert.equal(marginOf(spread(2, 1.95, 2.05)), 0.1);
  assert.equal(marginOf(spread(2, 1.8, 2.3)), 0.25);
});

test("a ratio may worsen by its margin and no further; a better one is fine", () => {
  const baseline = toBaseline(new Map([["a", spread(2, 1.8, 2.2)]]));
  assert.deepEqual(baseline, { a: { ratio: 2, margin: 0.2 } });
  const verdictOf = (median: number) => compare(baseline, new Map([["a", spread(median)]]))[0]?.verdict;
  assert.deepEqual([verdictOf(1), verdictOf(2.4), verdictOf(2.41)], ["ok", "ok", "worse"]);
});

test("the median decides, not a single slow round", () => {
  const baseline = { a: { ratio: 2, margin: 0.1 } };
  assert.equal(compare(baseline, new Map([["a", spread(2.1, 1.9, 9)]]))[0]?.verdict, "ok");
});

test("a ratio that was not measured, or that the baseline does not have, fails too", () => {
  const findings = compare({ gone: { ratio: 1, margin: 0.1 } }, new Map([["new", spread(1)]]));
  assert.deepEqual(
    findings.map(({ what, verdict }) => [what, verdict]),
    [
      ["gone", "missing"],
      ["new", "new"],
    ],
  );
  assert.ok(findings.every(isFailure));
  assert.match(renderFindings(findings), /gone +\| +1\.00x \| +1\.10x \| +– \(–…–\) \| missing \|/);
});

test("no baseline is made of a run in which something is missing", () => {
  assert.throws(() => toBaseline(new Map([["a", spread(Number.NaN)]])), /a was not measured/);
});
