import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { maxAccountNanos } from "#shared/money/money.ts";
import { costNanos, usageBuckets, type Units } from "#shared/money/pricing.ts";
import { boundCharge, inputBuckets, possibleUnits, sumOf } from "./possible-usage.ts";

const limits = { contextTokens: 400_000, maxOutputTokens: 128_000 };
const outputBuckets = usageBuckets.filter((bucket) => bucket.endsWith("Tokens") && !inputBuckets.includes(bucket));

test("what a call can have used is left as it was told, also by many samplings and by lists of texts", () => {
  const told: Units[] = [
    {},
    { inputTokens: 400_001n, outputTokens: 128_001n },
    { inputTokens: 128n * 400_000n },
    { inputTokens: 33_554_432n, outputTokens: 33_554_432n },
    { mediaMs: 604_800_000n, toolCalls: 10_000n, characters: 134_217_728n, images: 10_000n, requests: 1n },
  ];
  for (const units of told) assert.equal(possibleUnits(units, limits), units);
  const small = { contextTokens: 512, maxOutputTokens: 1 };
  assert.equal(possibleUnits(told[3] ?? {}, small), told[3], "2,048 texts at once are no lie");
});

test("a side that cannot be is what the model takes at most; its small buckets stay, and so does the other side", () => {
  const told = { inputTokens: 7n, cacheReadTokens: 10n ** 18n, cacheWrite1hTokens: 300_000n, outputTokens: 5n };
  const expected = { inputTokens: 7n, cacheReadTokens: 99_993n, cacheWrite1hTokens: 300_000n, outputTokens: 5n };
  assert.deepEqual(possibleUnits(told, limits), expected);
  assert.deepEqual(possibleUnits({ outputTokens: 2n ** 60n, reasoningTokens: 2n ** 61n }, limits), {
    outputTokens: 128_000n,
    reasoningTokens: 0n,
  });
});

test("other units that cannot be are as if they had not been told", () => {
  assert.deepEqual(possibleUnits({ mediaMs: 604_800_001n, requests: 1n }, limits), { requests: 1n });
});

const huge = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 70n }), fc.bigInt({ min: 0n, max: 1_000n }));
const units = fc.dictionary(fc.constantFrom(...usageBuckets), huge, { noNullPrototype: true });

test("whatever is told, at whatever prices: the charge is its units times its prices, and far below what can be counted", () => {
  const prices = fc.dictionary(fc.constantFrom(...usageBuckets), fc.bigInt({ min: 1n, max: 10n ** 18n }));
  fc.assert(
    fc.property(units, prices, (told, priced) => {
      const possible = possibleUnits(told, limits);
      const charged = boundCharge(possible, priced);
      assert.equal(charged.costNanos, costNanos(charged.usage, priced));
      assert.ok(charged.costNanos >= 0n && charged.costNanos <= maxAccountNanos / 9n);
      for (const bucket of usageBuckets) assert.ok((possible[bucket] ?? 0n) <= (told[bucket] ?? 0n), bucket);
      assert.ok(sumOf(possible, inputBuckets) <= 51_200_000n && sumOf(possible, outputBuckets) <= 33_554_432n);
    }),
  );
});
