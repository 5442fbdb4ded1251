import assert from "node:assert/strict";
import { test } from "node:test";
import type { Units } from "#shared/money/pricing.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { listeningLog, modelOf, settlingOf } from "../testing/fakes.ts";
import { checkPriced, unpricedUnits } from "./unpriced.ts";

const modelFor = (dialect: DialectName, prices: Units) => modelOf({ dialects: new Set([dialect]), prices });
const found = (dialect: DialectName, prices: Units, measured: Units) =>
  Object.fromEntries(unpricedUnits(modelFor(dialect, prices), { ...measured, requests: 1n }));

const text: Units = { inputTokens: 1n, outputTokens: 1n, reasoningTokens: 1n };

test("tool calls without a price are named: they cost the operator and nobody pays for them", () => {
  assert.deepEqual(found("openai-responses", text, { inputTokens: 5n, outputTokens: 1n, toolCalls: 2n }), {
    toolCalls: 2n,
  });
  assert.deepEqual(found("openai-responses", { ...text, toolCalls: 1n }, { inputTokens: 5n, toolCalls: 2n }), {});
  assert.deepEqual(found("openai-responses", text, { inputTokens: 5n, toolCalls: 0n }), {}, "none were made");
});

test("a model that is priced by another measure of its dialect is not charged twice, and nobody is alarmed", () => {
  const tokens: Units = { inputTokens: 9n, imageInputTokens: 1n, imageOutputTokens: 300n, outputTokens: 2n };
  assert.deepEqual(found("openai-images", { images: 1n }, { ...tokens, images: 2n }), {}, "by the image");
  const byToken = { inputTokens: 1n, imageInputTokens: 1n, imageOutputTokens: 1n };
  assert.deepEqual(found("openai-images", byToken, { images: 2n, imageOutputTokens: 300n }), {}, "by tokens");
  assert.deepEqual(found("openai-images", byToken, tokens), { outputTokens: 2n }, "but of all kinds");
  assert.deepEqual(found("openai-speech", { characters: 1n }, { characters: 5n, audioOutputTokens: 8n }), {});
  const heard = { mediaMs: 1_000n, inputTokens: 3n, outputTokens: 4n, audioInputTokens: 9n };
  assert.deepEqual(found("openai-transcriptions", { mediaMs: 1n }, heard), {});
  assert.deepEqual(found("openai-moderations", { requests: 1n }, { inputTokens: 5n }), {});
  assert.deepEqual(found("openai-moderations", { inputTokens: 1n }, { inputTokens: 5n }), {}, "requests need no price");
});

test("what no measure speaks of is named also where the model is priced by the piece", () => {
  assert.deepEqual(found("openai-images", { images: 1n }, { images: 1n, toolCalls: 1n }), { toolCalls: 1n });
  assert.deepEqual(found("openai-chat", text, { inputTokens: 1n, mediaMs: 7n }), { mediaMs: 7n });
});

const call = (model = modelFor("openai-responses", text)) => ({ rid: "rid-1", model, upstream: "somewhere" });
const samples = async (metric: { get: () => Promise<{ values: { labels: object; value: number }[] }> }) =>
  (await metric.get()).values.map(({ labels, value }) => [labels, value]);

test("units without a price are an alarm with the call's id, and count by bucket and upstream", async () => {
  const { log, lines } = listeningLog();
  const settling = settlingOf({ log });
  checkPriced(settling, call(), { inputTokens: 5n, toolCalls: 2n }, 5n);
  assert.deepEqual(await samples(settling.metrics.unpricedUnits), [
    [{ bucket: "toolCalls", upstream: "somewhere" }, 2],
  ]);
  assert.deepEqual(
    lines.map(({ level, rid, model, unpriced }) => [level, rid, model, unpriced]),
    [["error", "rid-1", "m", { toolCalls: "2" }]],
  );
  assert.deepEqual(await samples(settling.metrics.freeCalls), []);
});

test("a call that used something and cost nothing is an alarm, one that used nothing is none", async () => {
  const { log, lines } = listeningLog();
  const settling = settlingOf({ log });
  checkPriced(settling, call(), { requests: 1n, inputTokens: 0n }, 0n);
  checkPriced(settling, call(), { requests: 1n, inputTokens: 5n }, 5n);
  assert.deepEqual(lines, []);
  checkPriced(settling, call(), { requests: 1n, toolCalls: 1n }, 0n);
  assert.deepEqual(await samples(settling.metrics.freeCalls), [[{ upstream: "somewhere" }, 1]]);
  assert.match(String(lines[0]?.["msg"]), /cost nothing/);
});
