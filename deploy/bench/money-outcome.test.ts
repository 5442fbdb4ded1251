import assert from "node:assert/strict";
import { test } from "node:test";
import { renderMoney, type MoneyOutcome } from "./money-outcome.ts";

const outcome = (complaints: string[]): MoneyOutcome => ({
  title: "Booking events",
  unit: "events",
  windows: [],
  variants: [],
  bars: [{ what: "events/s", min: 10, measured: { median: 11, min: 9, max: 12 } }],
  complaints,
});

test("wrong books are told under the verdicts, with all that is wrong; right ones in a word", () => {
  assert.match(renderMoney([outcome([]), outcome([])]), /met[^]*\nbooks: right$/);
  const text = renderMoney([outcome([]), outcome(["lines: 9 instead of 10", "settle CONFLICT × 3"])]);
  assert.match(text, /WRONG[^]*\n {2}lines: 9 instead of 10\n {2}settle CONFLICT × 3$/);
});

test("figures that are only told stand in a table of their own, and nothing stands for bars that there are none of", () => {
  const figures = [{ what: "late by", measured: { median: 2, min: 1, max: 3 } }];
  const text = renderMoney([{ ...outcome([]), bars: [], figures }]);
  assert.match(text, /\| late by +\| 2\.00 \(1\.00…3\.00\) \|/);
  assert.doesNotMatch(text, /at least/);
});
