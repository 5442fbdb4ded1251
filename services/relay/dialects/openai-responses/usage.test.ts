import assert from "node:assert/strict";
import { test } from "node:test";
import { readUsage } from "./usage.ts";

test("input includes cached and written tokens, output includes reasoning: each part is taken out once", () => {
  const usage = {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 30, cache_write_tokens: 20 },
    output_tokens: 50,
    output_tokens_details: { reasoning_tokens: 40 },
    total_tokens: 150,
  };
  assert.deepEqual(readUsage(usage), {
    inputTokens: 50n,
    cacheReadTokens: 30n,
    cacheWrite5mTokens: 20n,
    outputTokens: 10n,
    reasoningTokens: 40n,
  });
});

test("trap 3 (cached and written can exceed the whole): what is left is 0, never less", () => {
  const usage = readUsage({ input_tokens: 10, input_tokens_details: { cached_tokens: 8, cache_write_tokens: 8 } });
  assert.equal(usage?.inputTokens, 0n);
});

test("no usage is none, and odd counts are 0", () => {
  assert.equal(readUsage(null), undefined);
  assert.equal(readUsage(undefined), undefined);
  assert.equal(readUsage({ input_tokens: null, output_tokens: -3 })?.outputTokens, 0n);
});
