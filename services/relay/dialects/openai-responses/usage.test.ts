import assert from "node:assert/strict";
import { test } from "node:test";
import { noCounts } from "../dialect.ts";
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

test("what was written to the cache is counted by how long it is kept", () => {
  const written = (details: unknown) => {
    const told = { cached_tokens: 5, cache_write_tokens: 100, cache_write_tokens_details: details };
    const units = readUsage({ input_tokens: 200, input_tokens_details: told, output_tokens: 1 });
    assert.equal(units?.inputTokens, 95n, "each token stands in one bucket");
    return [units.cacheWrite5mTokens, units.cacheWrite1hTokens];
  };
  assert.deepEqual(written({ ttl_30m_tokens: 70, ttl_12h_tokens: 30 }), [70n, 30n]);
  assert.deepEqual(written({ ttl_30m_tokens: 0, ttl_12h_tokens: 100 }), [0n, 100n]);
  assert.deepEqual(written({ ttl_12h_tokens: 30 }), [70n, 30n], "what no time is told of is the default");
  assert.deepEqual(written({ ttl_30m_tokens: 70 }), [100n, undefined]);
  assert.deepEqual(written({ ttl_12h_tokens: 500 }), [0n, 100n], "never more than the whole");
  for (const none of [undefined, null, {}, 7]) assert.deepEqual(written(none), [100n, undefined]);
});

test("sources of a live search are counted", () => {
  assert.equal(readUsage({ input_tokens: 1, output_tokens: 1, num_sources_used: 4 })?.searchSources, 4n);
});

test("trap 3 (cached and written can exceed the whole): what is left is 0, never less", () => {
  const usage = readUsage({ input_tokens: 10, input_tokens_details: { cached_tokens: 8, cache_write_tokens: 8 } });
  assert.equal(usage?.inputTokens, 0n);
});

test("no usage is none, and a count that is none is as if nothing had been told", () => {
  assert.equal(readUsage(null), undefined);
  assert.equal(readUsage(undefined), undefined);
  assert.equal(readUsage({ input_tokens: null, output_tokens: -3 }), noCounts);
});

test("an object that tells nothing is no usage: 0 is charged where it is told", () => {
  for (const nothing of [{}, { prompt_tokens: null, input_tokens: null, output_tokens: undefined }]) {
    assert.equal(readUsage(nothing), undefined);
  }
  assert.equal(readUsage({ prompt_tokens: 0, input_tokens: 0 })?.inputTokens, 0n);
});
