import assert from "node:assert/strict";
import { test } from "node:test";
import { renderMoney, type MoneyOutcome } from "./money-outcome.ts";

const outcome = (complaints: string[]): MoneyOutcome => ({
  title: "Booking events",
  unit: "events",
  windows: [],
  ways: [],
  bars: [{ what: "events/s", least: 10, measured: { median: 11, least: 9, greatest: 12 } }],
  complaints,
});

test("wrong books are told under the verdicts, with all that is wrong; right ones in a word", () => {
  assert.match(renderMoney([outcome([]), outcome([])]), /met[^]*\nbooks: right$/);
  const text = renderMoney([outcome([]), outcome(["lines: 9 instead of 10", "settle CONFLICT × 3"])]);
  assert.match(text, /WRONG[^]*\n {2}lines: 9 instead of 10\n {2}settle CONFLICT × 3$/);
});
