import assert from "node:assert/strict";
import { test } from "node:test";
import { isMet, renderBars, type Bar } from "./bars.ts";

const bar = (median: number): Bar => ({
  what: "pairs/s",
  min: 15_000,
  measured: { median, min: 9_000, max: 40_000 },
});
const ratio = (median: number): Bar => ({ what: "CPU", max: 1.9, measured: { median, min: 1, max: 3 } });

test("the median decides: a bar is met when it is reached, and never by a figure that is missing", () => {
  assert.deepEqual([isMet(bar(15_000)), isMet(bar(14_999)), isMet(bar(Number.NaN))], [true, false, false]);
  assert.deepEqual([isMet(ratio(1.9)), isMet(ratio(1.91)), isMet(ratio(Number.NaN))], [true, false, false]);
});

test("each bar is shown with what was asked, what was measured and the verdict", () => {
  const lines = renderBars([bar(20_000), bar(10_000), ratio(2)]).split("\n");
  assert.match(lines[2] ?? "", /pairs\/s \| ≥ 15,000 \| 20,000 \(9,000…40,000\) \| +met \|/);
  assert.match(lines[3] ?? "", /10,000 \(9,000…40,000\) \| NOT met \|/);
  assert.match(lines[4] ?? "", /CPU +\| +≤ 1\.90 \| +2\.00 \(1\.00…3\.00\) \| NOT met \|/);
});
