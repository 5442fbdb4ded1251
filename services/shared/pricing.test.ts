import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { costNanos, type Units, unpricedBucket, usageBuckets } from "./pricing.ts";

const count = fc.bigInt({ min: 0n, max: 10_000_000_000n });
const bucket = fc.constantFrom(...usageBuckets);
const units: fc.Arbitrary<Units> = fc.dictionary(bucket, count);

test("the buckets are exactly the fields of usage.v1.Usage", () => {
  assert.deepEqual(
    [...usageBuckets],
    UsageSchema.fields.map((field) => field.localName),
  );
});

test("1,000,000 tokens at 75 USD per million cost 75 USD exactly", () => {
  assert.equal(costNanos({ outputTokens: 1_000_000n }, { outputTokens: 75_000_000_000n }), 75_000_000_000n);
});

test("the cost is the exact rational sum, rounded up once by less than one nano-USD", () => {
  fc.assert(
    fc.property(units, units, (usage, prices) => {
      const millionths = usageBuckets.reduce((sum, name) => sum + (usage[name] ?? 0n) * (prices[name] ?? 0n), 0n);
      const excess = costNanos(usage, prices) * 1_000_000n - millionths;
      assert.ok(excess >= 0n && excess < 1_000_000n, `${excess} millionths of a nano-USD too much`);
    }),
  );
});

test("using more of any bucket never costs less", () => {
  fc.assert(
    fc.property(units, units, bucket, count, (usage, prices, name, more) => {
      const raised = { ...usage, [name]: (usage[name] ?? 0n) + more };
      assert.ok(costNanos(raised, prices) >= costNanos(usage, prices));
    }),
  );
});

test("splitting units over disjoint buckets of the same price leaves the total as it is", () => {
  fc.assert(
    fc.property(fc.array(count, { minLength: 1, maxLength: usageBuckets.length }), count, (parts, price) => {
      const split = Object.fromEntries(parts.map((part, index) => [usageBuckets[index], part]));
      const prices = Object.fromEntries(usageBuckets.map((name) => [name, price]));
      const whole = parts.reduce((sum, part) => sum + part, 0n);
      assert.equal(costNanos(split, prices), costNanos({ inputTokens: whole }, { inputTokens: price }));
    }),
  );
});

test("negative units and negative prices are refused, even when the other is zero", () => {
  const negative = { name: "RangeError", message: /inputTokens: .* is negative/ };
  assert.throws(() => costNanos({ inputTokens: -1n }, { inputTokens: 1n }), negative);
  assert.throws(() => costNanos({ inputTokens: 1n }, { inputTokens: -1n }), negative);
  assert.throws(() => costNanos({ inputTokens: -1n }, {}), negative);
  assert.throws(() => costNanos({}, { inputTokens: -1n }), negative);
});

test("a used bucket without a price is named, so that it cannot pass as free", () => {
  assert.equal(unpricedBucket({ inputTokens: 1n, images: 2n }, { inputTokens: 5n }), "images");
  assert.equal(unpricedBucket({ inputTokens: 1n }, { inputTokens: 0n }), undefined);
  assert.equal(unpricedBucket({ images: 0n }, {}), undefined);
});
