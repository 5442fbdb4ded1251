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

/** The same price worked out in another way: exact fractions by bucket in lowest terms, rounded up at the very end. */
function rationalCost(usage: Units, prices: Units): bigint {
  const divisor = (a: bigint, b: bigint): bigint => (b === 0n ? a : divisor(b, a % b));
  let [numerator, denominator] = [0n, 1n];
  for (const name of usageBuckets.toReversed()) {
    const [units, price] = [usage[name] ?? 0n, prices[name] ?? 0n];
    numerator = numerator * 1_000_000n + units * price * denominator;
    denominator *= 1_000_000n;
    const shared = divisor(numerator, denominator);
    [numerator, denominator] = [numerator / shared, denominator / shared];
  }
  const whole = numerator / denominator;
  return whole * denominator === numerator ? whole : whole + 1n;
}

test("the cost equals that of exact fractions", () => {
  fc.assert(
    fc.property(units, units, (usage, prices) => assert.equal(costNanos(usage, prices), rationalCost(usage, prices))),
  );
});

test("no cost is ever rounded down: what is used at a price costs at least a nano-USD", () => {
  const few = fc.bigInt({ min: 1n, max: 1_000n });
  fc.assert(
    fc.property(bucket, few, few, (name, used, price) => {
      assert.ok(costNanos({ [name]: used }, { [name]: price }) >= 1n);
      assert.ok(costNanos({ [name]: used }, { [name]: price }) * 1_000_000n >= used * price);
    }),
  );
});

test("the sum over disjoint buckets is the whole, but for what each part is rounded up by", () => {
  fc.assert(
    fc.property(units, units, (usage, prices) => {
      const names = usageBuckets.filter((name) => (usage[name] ?? 0n) > 0n);
      const parts = names.reduce((sum, name) => sum + costNanos({ [name]: usage[name] ?? 0n }, prices), 0n);
      const excess = parts - costNanos(usage, prices);
      assert.ok(excess >= 0n && excess <= BigInt(Math.max(0, names.length - 1)), `${excess} nano-USD`);
    }),
  );
});

test("a request split into several costs as much, or at most a nano-USD more for each further part", () => {
  fc.assert(
    fc.property(fc.array(units, { minLength: 1, maxLength: 8 }), units, (parts, prices) => {
      const whole: Units = {};
      for (const usage of parts) {
        for (const name of usageBuckets) whole[name] = (whole[name] ?? 0n) + (usage[name] ?? 0n);
      }
      const excess = parts.reduce((sum, usage) => sum + costNanos(usage, prices), 0n) - costNanos(whole, prices);
      assert.ok(excess >= 0n && excess < BigInt(parts.length), `${excess} nano-USD in ${parts.length} parts`);
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
