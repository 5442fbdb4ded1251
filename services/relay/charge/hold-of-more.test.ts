import assert from "node:assert/strict";
import { test } from "node:test";
import type { DialectName } from "../dialects/dialect.ts";
import { envelopeOfFacts, factsOf } from "../threads/facts.ts";
import { envelopeOf, modelOf } from "../testing/fakes.ts";
import { countInputTokens, estimateInputTokens, estimateNanos, estimateOutputTokens } from "./meter.ts";

const usd = 1_000_000_000n;
const model = modelOf({ maxOutputTokens: 100_000, reserveOutputTokens: 1_000 });

const outputOf = (fields: object, dialect: DialectName = "openai-chat"): number =>
  estimateOutputTokens(envelopeOf(fields, dialect), model);

test("a small cap by the format's name beside a large one by another server's holds for the large one", () => {
  const names = ["n_predict", "num_predict", "max_new_tokens", "max_length", "max_tokens_to_sample", "min_tokens"];
  const own = {
    "openai-chat": "max_tokens",
    "openai-responses": "max_output_tokens",
    "openai-completions": "max_tokens",
  };
  for (const [dialect, cap] of Object.entries(own) as [DialectName, string][]) {
    for (const name of names) {
      assert.equal(outputOf({ [cap]: 10, [name]: 90_000 }, dialect), 90_000, `${dialect} ${name}`);
      assert.equal(outputOf({ [cap]: 10, [name]: 5 }, dialect), 10);
      assert.equal(outputOf({ [cap]: 10, [name]: null }, dialect), 10);
      assert.equal(outputOf({ [name]: 5 }, dialect), 1_000, "a server that does not know it has no cap");
    }
    assert.equal(outputOf({ [cap]: 10, options: { num_predict: 90_000 } }, dialect), 90_000);
    assert.equal(outputOf({ [cap]: 10, options: { num_ctx: 90_000 } }, dialect), 10);
  }
  assert.equal(outputOf({ max_tokens: 10, max_new_tokens: 90_000 }, "anthropic-messages"), 90_000);
  assert.equal(outputOf({ max_tokens: 10, max_completion_tokens: 90_000 }, "openai-completions"), 90_000);
});

test("a cap that is none has no end", () => {
  for (const value of [-1, 0, 0.5, "90000"]) assert.equal(outputOf({ max_tokens: 10, n_predict: value }), 100_000);
  for (const num_predict of [-1, "90000"])
    assert.equal(outputOf({ max_tokens: 10, options: { num_predict } }), 100_000);
  assert.equal(outputOf({ max_tokens: 10, min_tokens: 0 }), 10, "what vLLM has where nothing is said");
});

test("a cap of less than one is none: servers cut it down to 0, and make as much as they like", () => {
  const own = {
    "openai-chat": ["max_tokens", "max_completion_tokens"],
    "openai-responses": ["max_output_tokens"],
    "openai-completions": ["max_tokens"],
    "anthropic-messages": ["max_tokens"],
  };
  for (const [dialect, names] of Object.entries(own) as [DialectName, string[]][]) {
    for (const name of names) {
      for (const value of [0.5, 1e-9, -1, "5", true]) {
        assert.equal(outputOf({ [name]: value }, dialect), 1_000, `${dialect} ${name} ${value}`);
      }
      assert.equal(outputOf({ [name]: 1.5 }, dialect), 2);
    }
  }
  assert.equal(outputOf({ max_tokens: 0 }, "anthropic-messages"), 0, "has its input written to the cache");
  const fallbacks = [{ model: "m", max_tokens: 5 }];
  assert.equal(outputOf({ max_tokens: -1, fallbacks }, "anthropic-messages"), 1_000, "one of them answers");
  assert.equal(outputOf({ max_tokens: 10, fallbacks }, "anthropic-messages"), 10);
});

test("thought that may be more than the cap of the answer is held for", () => {
  const openRouter = (max_tokens: unknown) => outputOf({ max_tokens: 10, reasoning: { max_tokens } });
  const anthropic = (budget_tokens: unknown) =>
    outputOf({ max_tokens: 10, thinking: { type: "enabled", budget_tokens } }, "anthropic-messages");
  for (const held of [openRouter, anthropic]) {
    assert.deepEqual([90_000, 5, 0, null, -1, "90000"].map(held), [90_000, 10, 10, 10, 100_000, 100_000]);
  }
  assert.equal(outputOf({ max_output_tokens: 10, reasoning: { effort: "high" } }, "openai-responses"), 10);
});

test("thought beside the cap is held for, and the whole of a prediction, which may be rejected", () => {
  assert.equal(outputOf({ max_tokens: 10, thinking_budget: 30_000 }), 30_010);
  assert.equal(outputOf({ max_tokens: 10, thinking_budget: 0 }), 10);
  assert.equal(outputOf({ max_tokens: 10, thinking_budget: "30000" }), 100_000);
  const prediction = { type: "content", content: "The committee will meet again. ".repeat(1_000) };
  assert.ok(outputOf({ max_tokens: 10, prediction }) > 5_000);
});

const kinds = modelOf({
  prices: {
    inputTokens: usd,
    cacheWrite5mTokens: (usd * 5n) / 4n,
    cacheWrite1hTokens: 2n * usd,
    outputTokens: 10n * usd,
    audioInputTokens: 40n * usd,
    audioOutputTokens: 80n * usd,
    imageOutputTokens: 30n * usd,
  },
});

test("sound and pictures that are asked for are held at their price", () => {
  const text = estimateNanos(envelopeOf({ max_tokens: 1_000, modalities: ["text"] }), kinds);
  const asked = { max_tokens: 1_000, modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } };
  const heard = estimateNanos(envelopeOf(asked), kinds);
  assert.ok(heard >= 80_000_000n && text < 11_000_000n, `${heard} ${text}`);
});

test("input that is written to a cache is held at the dearest price of a write", () => {
  const words = "The committee will meet again on Tuesday, and vote on it. ".repeat(500);
  const block = (more: object) => [{ role: "user", content: [{ type: "text", text: words, ...more }] }];
  const costOf = (fields: object, dialect: DialectName = "openai-chat") =>
    estimateNanos(envelopeOf({ max_tokens: 1, ...fields }, dialect), kinds);
  const written = { cache_control: { type: "ephemeral", ttl: "1h" } };
  for (const dialect of ["openai-chat", "anthropic-messages"] as const) {
    const plain = costOf({ messages: block({}) }, dialect);
    assert.ok(costOf({ messages: block(written) }, dialect) > (plain * 19n) / 10n, dialect);
    assert.ok(costOf({ messages: block({}), ...written }, dialect) > (plain * 19n) / 10n, dialect);
  }
  const short = costOf({ messages: block({ cache_control: { type: "ephemeral" } }) });
  const none = costOf({ messages: block({}) });
  assert.ok(short > (none * 12n) / 10n && short < (none * 13n) / 10n, "five minutes");
  const plain = costOf({ input: words, max_output_tokens: 1 }, "openai-responses");
  const options = { prompt_cache_options: { ttl: "12h" } };
  assert.ok(costOf({ input: words, max_output_tokens: 1, ...options }, "openai-responses") > (plain * 19n) / 10n);
});

test("sound in a request is held at its price", () => {
  const data = Buffer.alloc(400_000, 7).toString("base64");
  const sound = { type: "input_audio", input_audio: { data, format: "wav" } };
  const envelope = envelopeOf({ max_tokens: 1, messages: [{ role: "user", content: [sound] }] });
  const dear = estimateNanos(envelope, kinds);
  const cheap = estimateNanos(envelope, modelOf({ prices: { inputTokens: usd, outputTokens: 10n * usd } }));
  assert.ok(dear > cheap * 30n, `${dear} ${cheap}`);
});

test("a body that another thread has read is held for as much", () => {
  const fields = { max_tokens: 10, n_predict: 50_000, modalities: ["audio"], prediction: "x ".repeat(100) };
  const told = envelopeOf(fields);
  const known = envelopeOfFacts(factsOf(told));
  assert.equal(estimateNanos(known, kinds), estimateNanos(told, kinds));
});

test("each text of a list is read by itself, so that all of them count, and not only as much as the model reads", () => {
  const small = modelOf({ contextTokens: 1_000 });
  const long = "The committee will meet again. ".repeat(500);
  const lists: [DialectName, object, number][] = [
    ["openai-completions", { prompt: [long, long, long], max_tokens: 1 }, 3],
    ["openai-embeddings", { input: [long, long, long] }, 3],
    ["openai-moderations", { input: [long, long, long] }, 3],
    ["openai-embeddings", { input: [Array.from({ length: 5_000 }, () => 7), [7]] }, 2],
    ["openai-embeddings", { input: Array.from({ length: 5_000 }, () => 7) }, 1],
    ["openai-embeddings", { input: long }, 1],
    ["openai-chat", { messages: [long, long, long].map((content) => ({ role: "user", content })) }, 1],
  ];
  for (const [dialect, fields, texts] of lists) {
    const envelope = envelopeOf(fields, dialect);
    assert.equal(estimateInputTokens(envelope, small), texts * 1_000, `${dialect}, ${texts}`);
    assert.equal(countInputTokens(envelope, small), texts * 1_000);
    assert.equal(countInputTokens(envelopeOfFacts(factsOf(envelope)), small), texts * 1_000);
  }
  const short = envelopeOf({ input: Array.from({ length: 100 }, () => "word") }, "openai-embeddings");
  assert.ok(countInputTokens(short, small) < 600);
});
