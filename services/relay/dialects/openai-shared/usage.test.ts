import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { noCounts } from "../dialect.ts";
import { readToldUsage, readUsage } from "./usage.ts";

const sum = (units: Record<string, bigint | undefined>, names: string[]): bigint =>
  names.reduce((total, name) => total + (units[name] ?? 0n), 0n);
const inputBuckets = ["inputTokens", "cacheReadTokens", "cacheWrite5mTokens", "audioInputTokens", "imageInputTokens"];
const outputBuckets = ["outputTokens", "reasoningTokens", "audioOutputTokens"];
const counts = fc.nat({ max: 1_000_000 });

test("trap 1 (OpenAI prompt_tokens includes cache reads and writes; subtract exactly once): buckets add up to the whole", () => {
  const inputs = fc.record({ fresh: counts, cached: counts, written: counts, audio: counts, image: counts });
  const outputs = fc.record({ seen: counts, reasoning: counts, audio: counts });
  fc.assert(
    fc.property(inputs, outputs, (input, output) => {
      const prompt = input.fresh + input.cached + input.written + input.audio + input.image;
      const completion = output.seen + output.reasoning + output.audio;
      const units = readUsage({
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        prompt_tokens_details: {
          cached_tokens: input.cached,
          cache_write_tokens: input.written,
          audio_tokens: input.audio,
          image_tokens: input.image,
        },
        completion_tokens_details: { reasoning_tokens: output.reasoning, audio_tokens: output.audio },
      });
      assert.ok(units);
      assert.equal(units.inputTokens, BigInt(input.fresh));
      assert.equal(units.outputTokens, BigInt(output.seen));
      assert.equal(sum(units, inputBuckets), BigInt(prompt));
      assert.equal(sum(units, outputBuckets), BigInt(completion));
    }),
  );
});

test("each count of the provider lands in its own bucket", () => {
  const units = readUsage({
    prompt_tokens: 111_111,
    completion_tokens: 1_110_000,
    prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 100, audio_tokens: 1_000, image_tokens: 10_000 },
    completion_tokens_details: { reasoning_tokens: 100_000, audio_tokens: 1_000_000, accepted_prediction_tokens: 7 },
  });
  assert.deepEqual(units, {
    inputTokens: 100_001n,
    cacheReadTokens: 10n,
    cacheWrite5mTokens: 100n,
    audioInputTokens: 1_000n,
    imageInputTokens: 10_000n,
    outputTokens: 10_000n,
    reasoningTokens: 100_000n,
    audioOutputTokens: 1_000_000n,
  });
});

test("trap 3 (OpenAI cache-write counts can make cached + written exceed prompt): what is left is 0, never negative", () => {
  const units = readUsage({
    prompt_tokens: 100,
    completion_tokens: 5,
    prompt_tokens_details: { cached_tokens: 80, cache_write_tokens: 50 },
    completion_tokens_details: { reasoning_tokens: 9 },
  });
  assert.equal(units?.inputTokens, 0n);
  assert.equal(units?.outputTokens, 0n);
});

test("missing and null counts read as 0, with others that are none nothing was told, and no bucket is ever negative", () => {
  const junk = fc.oneof(counts, fc.constantFrom(null, undefined, Number.NaN, -5, 1.5, Infinity, "7", {}, 2 ** 60));
  const usage = fc.record({
    prompt_tokens: junk,
    completion_tokens: junk,
    prompt_tokens_details: fc.oneof(fc.record({ cached_tokens: junk, cache_write_tokens: junk }), junk),
    completion_tokens_details: fc.oneof(fc.record({ reasoning_tokens: junk, audio_tokens: junk }), junk),
  });
  fc.assert(
    fc.property(usage, (told) => {
      for (const units of Object.values(readUsage(told) ?? {})) assert.ok(units >= 0n);
    }),
  );
  assert.equal(readUsage({ prompt_tokens: null, completion_tokens: 3 })?.inputTokens, 0n);
  assert.equal(readUsage({ prompt_tokens: 3, completion_tokens: Number.NaN }), noCounts);
});

test("no usage object is no usage, which is not the same as a usage of 0", () => {
  for (const none of [undefined, null, 7, "usage"]) assert.equal(readUsage(none), undefined);
  assert.equal(readUsage({})?.inputTokens, 0n);
});

test("reasoning that a compatible server counts beside completion_tokens is told by the total, and not taken out", () => {
  const beside = {
    prompt_tokens: 468,
    completion_tokens: 82,
    total_tokens: 870,
    completion_tokens_details: { reasoning_tokens: 320 },
  };
  assert.equal(readUsage(beside)?.outputTokens, 82n);
  assert.equal(readUsage(beside)?.reasoningTokens, 320n);
  const within = { ...beside, completion_tokens: 402 };
  assert.equal(readUsage(within)?.outputTokens, 82n);
  assert.equal(readUsage({ ...within, total_tokens: undefined })?.outputTokens, 82n);
});

test("what was written to the cache is counted by how long it is kept, and sources of a live search", () => {
  const units = readUsage({
    prompt_tokens: 200,
    completion_tokens: 1,
    prompt_tokens_details: {
      cached_tokens: 5,
      cache_write_tokens: 100,
      cache_write_tokens_details: { ttl_30m_tokens: 60, ttl_12h_tokens: 40 },
    },
    num_sources_used: 3,
  });
  assert.deepEqual(
    [units?.inputTokens, units?.cacheWrite5mTokens, units?.cacheWrite1hTokens, units?.searchSources],
    [95n, 60n, 40n, 3n],
  );
});

const google = { prompt_tokens: 40, completion_tokens: 7, total_tokens: 109 };

test("reasoning that only the total tells is output where the model is known to count so", () => {
  const units = readUsage(google, { isReasoningInTotal: true });
  assert.deepEqual([units?.inputTokens, units?.outputTokens, units?.reasoningTokens], [40n, 7n, 62n]);
  const unknown = readUsage(google);
  assert.deepEqual([unknown?.outputTokens, unknown?.reasoningTokens], [7n, 0n], "elsewhere nobody knows what it is");
});

test("of such a model a total that adds up, or none, tells no reasoning; told reasoning counts once", () => {
  const outputOf = (more: object) => {
    const units = readUsage({ ...google, ...more }, { isReasoningInTotal: true });
    return [units?.outputTokens, units?.reasoningTokens];
  };
  assert.deepEqual(outputOf({ total_tokens: 47 }), [7n, 0n]);
  assert.deepEqual(outputOf({ total_tokens: undefined }), [7n, 0n]);
  assert.deepEqual(outputOf({ total_tokens: 3 }), [7n, 0n]);
  assert.deepEqual(outputOf({ completion_tokens_details: { reasoning_tokens: 62 } }), [7n, 62n]);
  assert.deepEqual(outputOf({ total_tokens: 47, completion_tokens_details: { reasoning_tokens: 5 } }), [2n, 5n]);
});

test("an object that tells nothing is no usage: 0 is charged where it is told", () => {
  for (const nothing of [{}, { prompt_tokens: null, input_tokens: null, output_tokens: undefined }]) {
    assert.equal(readToldUsage(nothing), undefined);
  }
  assert.equal(readToldUsage({ prompt_tokens: 0, input_tokens: 0 })?.inputTokens, 0n);
});
