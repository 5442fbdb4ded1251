import assert from "node:assert/strict";
import { test } from "node:test";
import { median, pairedSpread, quantile, spreadOf } from "./statistics.ts";

test("the median of an odd number of values is the middle one, of an even number the mean of the middle two", () => {
  assert.equal(median([9, 1, 5]), 5);
  assert.equal(median([9, 1, 5, 7]), 6);
  assert.ok(Number.isNaN(median([])));
});

test("sorting for the median is by number, and leaves the values as they are", () => {
  const values = [10, 9, 100];
  assert.equal(median(values), 10);
  assert.deepEqual(values, [10, 9, 100]);
});

test("a quantile is a value that was seen: the 99th of a hundred is not the greatest", () => {
  const sorted = Array.from({ length: 100 }, (_, index) => index + 1);
  assert.deepEqual(
    [0, 0.5, 0.99, 1].map((share) => quantile(sorted, share)),
    [1, 50, 99, 100],
  );
  assert.equal(quantile([7], 0.99), 7);
  assert.ok(Number.isNaN(quantile([], 0.5)));
});

test("windows without a figure do not spoil the others", () => {
  assert.deepEqual(spreadOf([3, Number.NaN, 1]), { median: 2, min: 1, max: 3 });
  assert.ok(Number.isNaN(spreadOf([Number.NaN]).median));
});

test("ratios are taken within a round, so a slow round does not count against one side", () => {
  assert.deepEqual(pairedSpread([20, 200, 33], [10, 100, 11]), { median: 2, min: 2, max: 3 });
  assert.equal(pairedSpread([20, Number.NaN], [10, 10]).median, 2);
  assert.ok(Number.isNaN(pairedSpread([1], [0]).median));
});
