import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { noCounts } from "../dialect.ts";
import { readRuns, readUsage } from "./usage.ts";

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

test("missing and null counts read as 0, with others that are none nothing was told, and no bucket is ever negative", () => {
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
  assert.equal(readUsage({ input_tokens: null, output_tokens: Number.NaN }), noCounts);
});

test("no usage object is no usage", () => {
  for (const none of [undefined, null, 7, "usage"]) assert.equal(readUsage(none), undefined);
});

test("tools that the provider runs are counted as it tells them, also when it tells that none ran", () => {
  const told = {
    input_tokens: 1,
    output_tokens: 2,
    server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 },
  };
  const units = readUsage(told);
  assert.deepEqual([units?.webSearches, units?.webFetches], [2n, 1n]);
  const none = readUsage({ ...told, server_tool_use: { web_search_requests: 0 } });
  assert.deepEqual([none?.webSearches, none?.webFetches], [0n, 0n]);
  assert.equal("webSearches" in (readUsage({ ...told, server_tool_use: null }) ?? {}), false, "nothing was told");
});

const runOf = (type: string, input: number, output: number, more: object = {}): object => ({
  type,
  input_tokens: input,
  output_tokens: output,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_creation: null,
  ...more,
});
const compacted = {
  input_tokens: 2_000,
  output_tokens: 40,
  iterations: [runOf("compaction", 50_000, 900), runOf("message", 2_000, 40)],
};

test("the runs of a model that an answer took add up: the top level tells the last one only", () => {
  const units = readUsage(compacted);
  assert.deepEqual([units?.inputTokens, units?.outputTokens, units?.reasoningTokens], [52_000n, 940n, 0n]);
  const cached = {
    ...compacted,
    iterations: [
      runOf("message", 10, 5, {
        cache_read_input_tokens: 70,
        cache_creation_input_tokens: 30,
        cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
      }),
      runOf("message", 2_000, 40),
    ],
    output_tokens_details: { thinking_tokens: 44 },
    server_tool_use: { web_search_requests: 1, web_fetch_requests: 0 },
  };
  assert.deepEqual(readUsage(cached), {
    inputTokens: 2_010n,
    cacheReadTokens: 70n,
    cacheWrite5mTokens: 10n,
    cacheWrite1hTokens: 20n,
    outputTokens: 1n,
    reasoningTokens: 44n,
    webSearches: 1n,
    webFetches: 0n,
  });
});

test("runs never make an answer cheaper than its top level, whatever they are", () => {
  const top = { input_tokens: 10, output_tokens: 5 };
  for (const iterations of [null, [], {}, "x", [null], [runOf("message", 1, 1)]]) {
    const units = readUsage({ ...top, iterations });
    assert.deepEqual([units?.inputTokens, units?.outputTokens], [10n, 5n], JSON.stringify(iterations));
  }
  assert.equal(readUsage({ ...top, iterations: [runOf("message", -5, 2 ** 60)] }), noCounts);
});

test("how long writes are kept is told by the runs, and where they do not by the top level", () => {
  const written = (tokens: number, long: number | null) => ({
    cache_creation_input_tokens: tokens,
    cache_creation:
      long === null ? null : { ephemeral_1h_input_tokens: long, ephemeral_5m_input_tokens: tokens - long },
  });
  const read = (top: object, ...runs: object[]) => {
    const units = readUsage({ input_tokens: 1, output_tokens: 1, ...top, iterations: runs });
    return [units?.cacheWrite5mTokens, units?.cacheWrite1hTokens];
  };
  // The top level of a stream has the parts of the first run, and the whole of all.
  const top = { cache_creation_input_tokens: 300, cache_creation: { ephemeral_1h_input_tokens: 100 } };
  const both = [runOf("message", 1, 0, written(100, 100)), runOf("message", 0, 1, written(200, 200))];
  assert.deepEqual(read(top, ...both), [0n, 300n]);
  const compacted = [runOf("compaction", 50, 9, written(70, null)), runOf("message", 1, 1, written(300, null))];
  assert.deepEqual(read(top, ...compacted), [270n, 100n]);
  assert.deepEqual(read({ cache_creation: { ephemeral_1h_input_tokens: 9 } }, runOf("message", 5, 50)), [0n, 0n]);
});

test("runs that name a model are told by it, and the input of the longest run", () => {
  const usage = {
    ...compacted,
    iterations: [
      runOf("message", 3_000, 20, { model: "claude-served" }),
      runOf("advisor_message", 4_000, 700, { model: "claude-adviser", cache_read_input_tokens: 90 }),
      runOf("advisor_message", 1_000, 100, { model: "claude-adviser" }),
      runOf("message", 2_000, 40, { model: null }),
    ],
  };
  const { byModel, longestInputTokens } = readRuns(usage);
  const named = byModel.map(({ model, usage: { inputTokens, cacheReadTokens, outputTokens } }) => [
    model,
    inputTokens,
    cacheReadTokens,
    outputTokens,
  ]);
  assert.deepEqual(named, [
    ["claude-served", 3_000n, 0n, 20n],
    ["claude-adviser", 5_000n, 90n, 800n],
  ]);
  assert.equal(longestInputTokens, 4_090);
  assert.equal(readUsage(usage)?.inputTokens, 10_000n, "all of them are in the whole");
  assert.deepEqual(readRuns({ input_tokens: 7 }), { byModel: [], longestInputTokens: undefined });
  const many = Array.from({ length: 100_000 }, (_, index) => runOf("message", 1, 1, { model: `m${index}` }));
  assert.equal(readRuns({ iterations: many }).byModel.length, 16, "no provider makes the relay search for long");
});

test("an object that tells nothing is no usage: 0 is charged where it is told", () => {
  for (const nothing of [{}, { prompt_tokens: null, input_tokens: null, output_tokens: undefined }]) {
    assert.equal(readUsage(nothing), undefined);
  }
  assert.equal(readUsage({ prompt_tokens: 0, input_tokens: 0 })?.inputTokens, 0n);
});
