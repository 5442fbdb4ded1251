import assert from "node:assert/strict";
import { test } from "node:test";
import { ratioOf, renderVariants, summarizeVariants, type VariantWindow } from "./variants.ts";

const window = (round: number, variant: string, perSecond: number): VariantWindow => ({
  round,
  variant,
  done: 100,
  perSecond,
  cpuUs: { server: perSecond / 100, store: 5 },
  othersPercent: 0,
});
// The machine was twice as fast in round 2, for whoever worked then.
const windows = [
  window(1, "naive", 1_000),
  window(1, "batched", 9_000),
  window(2, "batched", 12_000),
  window(2, "naive", 2_000),
  window(3, "naive", 1_000),
  window(3, "batched", 7_000),
];

test("a ratio is taken within a round, and its median over the rounds", () => {
  assert.deepEqual(ratioOf(windows, "batched", "naive"), { median: 7, min: 6, max: 9 });
  assert.ok(Number.isNaN(ratioOf(windows, "batched", "missing").median));
});

test("each variant has the spread of its speed, its ratio to the naive variant and medians of CPU by process", () => {
  const [naive, batched] = summarizeVariants(windows, "naive");
  assert.deepEqual(naive?.timesNaive, { median: 1, min: 1, max: 1 });
  assert.deepEqual(batched, {
    variant: "batched",
    perSecond: { median: 9_000, min: 7_000, max: 12_000 },
    timesNaive: { median: 7, min: 6, max: 9 },
    cpuUs: { server: 90, store: 5 },
  });
});

test("the table has a row per variant and a column per process", () => {
  const lines = renderVariants("work", "pairs", summarizeVariants(windows, "naive")).split("\n");
  assert.match(lines[0] ?? "", /work +\| +pairs\/s \| times naive \| CPU µs, server \| CPU µs, store \|/);
  assert.match(lines[3] ?? "", /batched \| +9,000 \(7,000…12,000\) \| +7\.00x \| +90\.0 \| +5\.00 \|/);
});
