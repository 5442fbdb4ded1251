import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readUsage } from "./usage.ts";

const details = (counts: Record<string, number>): object[] =>
  Object.entries(counts).map(([modality, tokenCount]) => ({ modality, tokenCount }));

const sum = (usage: unknown): bigint => Object.values(readUsage(usage) ?? {}).reduce((all, units) => all + units, 0n);

test("trap 4 (thoughts are usually outside candidatesTokenCount): they are beside the visible output", () => {
  const usage = { promptTokenCount: 100, candidatesTokenCount: 20, thoughtsTokenCount: 300, totalTokenCount: 420 };
  const { outputTokens, reasoningTokens, inputTokens } = readUsage(usage) ?? {};
  assert.deepEqual([inputTokens, outputTokens, reasoningTokens], [100n, 20n, 300n]);
  assert.equal(sum(usage), 420n);
});

test("trap 4 (but sometimes inside — decide by comparing with totalTokenCount): they are taken out of the output", () => {
  const usage = { promptTokenCount: 100, candidatesTokenCount: 320, thoughtsTokenCount: 300, totalTokenCount: 420 };
  const { outputTokens, reasoningTokens } = readUsage(usage) ?? {};
  assert.deepEqual([outputTokens, reasoningTokens], [20n, 300n]);
  assert.equal(sum(usage), 420n);
});

test("trap 4: cached tokens are inside promptTokenCount, and what tools put into the prompt is input too", () => {
  const usage = {
    promptTokenCount: 100,
    cachedContentTokenCount: 60,
    toolUsePromptTokenCount: 7,
    candidatesTokenCount: 5,
    thoughtsTokenCount: 3,
    totalTokenCount: 115,
  };
  const { inputTokens, cacheReadTokens, outputTokens, reasoningTokens } = readUsage(usage) ?? {};
  assert.deepEqual([inputTokens, cacheReadTokens, outputTokens, reasoningTokens], [47n, 60n, 5n, 3n]);
  assert.equal(sum(usage), 115n);
});

test("trap 5 (cached tokens overlap image/audio buckets): what was cached of a kind is taken out of that kind", () => {
  const usage = {
    promptTokenCount: 1000,
    cachedContentTokenCount: 700,
    promptTokensDetails: details({ TEXT: 200, IMAGE: 500, AUDIO: 300 }),
    cacheTokensDetails: details({ TEXT: 100, IMAGE: 400, AUDIO: 200 }),
  };
  const { inputTokens, cacheReadTokens, imageInputTokens, audioInputTokens } = readUsage(usage) ?? {};
  assert.deepEqual([inputTokens, cacheReadTokens, imageInputTokens, audioInputTokens], [100n, 700n, 100n, 100n]);
});

test("trap 5: without details of the cache no kind exceeds what is left, so that nothing counts twice", () => {
  const usage = {
    promptTokenCount: 1000,
    cachedContentTokenCount: 900,
    promptTokensDetails: details({ TEXT: 200, IMAGE: 800 }),
  };
  const { inputTokens, imageInputTokens } = readUsage(usage) ?? {};
  assert.deepEqual([inputTokens, imageInputTokens], [0n, 100n]);
  assert.equal(sum(usage), 1000n);
});

test("pictures and sound of the answer have their own buckets", () => {
  const usage = {
    promptTokenCount: 10,
    candidatesTokenCount: 1300,
    candidatesTokensDetails: details({ IMAGE: 1290, AUDIO: 4 }),
  };
  const { outputTokens, imageOutputTokens, audioOutputTokens } = readUsage(usage) ?? {};
  assert.deepEqual([outputTokens, imageOutputTokens, audioOutputTokens], [6n, 1290n, 4n]);
});

test("what has no counts is no usage", () => {
  for (const usage of [undefined, null, 7, "x", [], {}, { trafficType: "ON_DEMAND" }]) {
    assert.equal(readUsage(usage), undefined);
  }
});

test("buckets are never negative and add up to input and output, whatever the counts", () => {
  const count = fc.nat(1_000_000);
  const kinds = fc.array(
    fc.record({ modality: fc.constantFrom("TEXT", "IMAGE", "AUDIO", "VIDEO"), tokenCount: count }),
  );
  const usage = fc.record(
    {
      promptTokenCount: count,
      cachedContentTokenCount: count,
      toolUsePromptTokenCount: count,
      candidatesTokenCount: count,
      promptTokensDetails: kinds,
      cacheTokensDetails: kinds,
      candidatesTokensDetails: kinds,
    },
    { requiredKeys: ["promptTokenCount"] },
  );
  fc.assert(
    fc.property(usage, count, (counts, thoughtsTokenCount) => {
      const { promptTokenCount: prompt, toolUsePromptTokenCount: ofTools = 0, candidatesTokenCount: seen = 0 } = counts;
      const total = prompt + ofTools + seen + thoughtsTokenCount;
      const whole = { ...counts, thoughtsTokenCount, totalTokenCount: total };
      assert.equal(sum(whole), BigInt(total));
      assert.ok(Object.values(readUsage(whole) ?? {}).every((units) => units >= 0n));
      assert.ok(sum({ ...whole, totalTokenCount: total - thoughtsTokenCount }) <= BigInt(total));
    }),
  );
});

test("anything else never throws", () => {
  fc.assert(fc.property(fc.anything(), (usage) => void readUsage(usage)));
});
