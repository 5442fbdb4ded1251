import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readUsage } from "./usage.ts";

const counts = fc.nat({ max: 1_000_000 });

test("trap 1 (Anthropic input_tokens excludes cache reads and writes): nothing is subtracted, nothing counted twice", () => {
  const units = readUsage({
    input_tokens: 1,
    cache_read_input_tokens: 20,
    cache_creation_input_tokens: 300,
    output_tokens: 4_000,
  });
  assert.deepEqual(units, {
    inputTokens: 1n,
    cacheReadTokens: 20n,
    cacheWrite5mTokens: 300n,
    cacheWrite1hTokens: 0n,
    outputTokens: 4_000n,
    reasoningTokens: 0n,
  });
});

test("disjoint buckets add up to what the provider counted, in and out", () => {
  const told = fc.record({
    fresh: counts,
    read: counts,
    fiveMinutes: counts,
    hour: counts,
    seen: counts,
    thought: counts,
  });
  fc.assert(
    fc.property(told, ({ fresh, read, fiveMinutes, hour, seen, thought }) => {
      const units = readUsage({
        input_tokens: fresh,
        cache_read_input_tokens: read,
        cache_creation_input_tokens: fiveMinutes + hour,
        cache_creation: { ephemeral_5m_input_tokens: fiveMinutes, ephemeral_1h_input_tokens: hour },
        output_tokens: seen + thought,
        output_tokens_details: { thinking_tokens: thought },
      });
      assert.deepEqual(units, {
        inputTokens: BigInt(fresh),
        cacheReadTokens: BigInt(read),
        cacheWrite5mTokens: BigInt(fiveMinutes),
        cacheWrite1hTokens: BigInt(hour),
        outputTokens: BigInt(seen),
        reasoningTokens: BigInt(thought),
      });
    }),
  );
});

test("trap 2 (5m and 1h parts may cover only the first iteration; price total minus parts too): the rest is 5m", () => {
  const units = readUsage({
    cache_creation_input_tokens: 1_000,
    cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 },
  });
  assert.equal(units?.cacheWrite1hTokens, 200n);
  assert.equal(units?.cacheWrite5mTokens, 800n);
});

test("parts without a total count as what they are", () => {
  const units = readUsage({ cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 } });
  assert.equal(units?.cacheWrite1hTokens, 200n);
  assert.equal(units?.cacheWrite5mTokens, 100n);
});

test("missing, null, NaN, negative and fractional counts read as 0, and no bucket is ever negative", () => {
  const junk = fc.oneof(counts, fc.constantFrom(null, undefined, Number.NaN, -5, 1.5, Infinity, "7", {}, 2 ** 60));
  const usage = fc.record({
    input_tokens: junk,
    output_tokens: junk,
    cache_creation_input_tokens: junk,
    cache_read_input_tokens: junk,
    cache_creation: fc.oneof(fc.record({ ephemeral_5m_input_tokens: junk, ephemeral_1h_input_tokens: junk }), junk),
    output_tokens_details: fc.oneof(fc.record({ thinking_tokens: junk }), junk),
  });
  fc.assert(
    fc.property(usage, (told) => {
      for (const units of Object.values(readUsage(told) ?? {})) assert.ok(units >= 0n);
    }),
  );
  assert.equal(readUsage({ input_tokens: null, output_tokens: Number.NaN })?.outputTokens, 0n);
});

test("no usage object is no usage", () => {
  for (const none of [undefined, null, 7, "usage"]) assert.equal(readUsage(none), undefined);
});
