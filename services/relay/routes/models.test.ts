import assert from "node:assert/strict";
import { test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { modelOf, upstreamOf } from "../testing/fakes.ts";
import { videoModelOf } from "../testing/video-relay.ts";
import { listFormatA, listFormatB, wantsFormatB } from "./models.ts";

const dear = modelOf({ prices: { inputTokens: 4_500_000_000n } });
const models = [
  modelOf({
    id: "a",
    createdAtSeconds: 1_700_000_000,
    dialects: new Set(["openai-chat", "anthropic-messages", "openai-completions"]),
    variants: [{ where: { service_tier: "flex" }, aboveInputTokens: 2_000, model: dear }],
  }),
  modelOf({
    id: "b",
    createdAtSeconds: 1_600_000_000,
    dialects: new Set(["openai-embeddings"]),
    routes: [{ upstream: upstreamOf({ dialects: ["openai-embeddings"] }), model: "b", priority: 0, weight: 0 }],
    prices: { inputTokens: 20_000_000n },
  }),
];

test("API spec, Endpoints: `GET /v1/models`: no body. Returns the Format B list when both the `x-api-key` and `provider-version` headers are present; otherwise the Format A list", () => {
  assert.equal(wantsFormatB({ "x-api-key": "k", "provider-version": "2026-10-21" }), true);
  assert.equal(wantsFormatB({ "x-api-key": "k", "anthropic-version": "2023-06-01" }), true);
  assert.equal(wantsFormatB({ "x-api-key": "k" }), false);
  assert.equal(wantsFormatB({ "x-api-key": "k", "provider-version": "soon" }), false);
  assert.equal(wantsFormatB({ authorization: "Bearer k", "provider-version": "2026-10-21" }), false);
  assert.equal(wantsFormatB({ "x-api-key": "", "provider-version": "2026-10-21" }), false);
  assert.equal(wantsFormatB({ authorization: "Bearer k" }), false);
  assert.equal(wantsFormatB({}), false);
});

test("API spec, Authentication: Format B takes `Authorization: Bearer` as well, which is all that its newest clients send", () => {
  assert.equal(wantsFormatB({ authorization: "Bearer k", "anthropic-version": "2023-06-01" }), true);
});

test("Format A: a list of entries as the official clients have them, with endpoints, limits and prices", () => {
  const { data, ...list } = listFormatA(models, true);
  assert.deepEqual(list, { object: "list" });
  // Held against the type of the official client.
  const [first, second]: OpenAI.Model[] = data;
  assert.deepEqual(first, {
    id: "a",
    object: "model",
    created: 1_700_000_000,
    owned_by: "somebody",
    endpoints: ["/v1/chat/completions", "/v1/messages"],
    context_length: 100_000,
    max_output_tokens: 10_000,
    prices: { input_tokens: "1", output_tokens: "2", reasoning_tokens: "2" },
    price_variants: [{ service_tier: "flex", above_input_tokens: 2_000, prices: { input_tokens: "4.5" } }],
  });
  assert.deepEqual(second, {
    id: "b",
    object: "model",
    created: 1_600_000_000,
    owned_by: "somebody",
    endpoints: ["/v1/embeddings"],
    // Nothing is known of what makes no text.
    context_length: null,
    max_output_tokens: null,
    prices: { input_tokens: "0.02" },
    price_variants: [],
  });
  assert.deepEqual(listFormatA([], true), { object: "list", data: [] });
});

test("Format B: one page with RFC 3339 times, first and last id, and every field that the official clients have", () => {
  const { data, ...page } = listFormatB(models, true);
  assert.deepEqual(page, { has_more: false, first_id: "a", last_id: "b" });
  const [first, second]: Anthropic.ModelInfo[] = data;
  assert.deepEqual(first, {
    type: "model",
    id: "a",
    display_name: "a",
    created_at: "2023-11-14T22:13:20Z",
    max_input_tokens: 100_000,
    max_tokens: 10_000,
    capabilities: null,
    deprecated_at: null,
    lifecycle: "active",
    line: null,
    retires_at: null,
    endpoints: ["/v1/chat/completions", "/v1/messages"],
    prices: { input_tokens: "1", output_tokens: "2", reasoning_tokens: "2" },
    price_variants: [{ service_tier: "flex", above_input_tokens: 2_000, prices: { input_tokens: "4.5" } }],
  });
  assert.deepEqual([second?.max_input_tokens, second?.max_tokens], [null, null]);
  assert.deepEqual(listFormatB([], true), { data: [], has_more: false, first_id: null, last_id: null });
});

test("a model of videos names their endpoint where they are served", () => {
  const [served] = listFormatA([videoModelOf()], true).data;
  const [unserved] = listFormatA([videoModelOf()], false).data;
  assert.deepEqual([served?.endpoints, unserved?.endpoints], [["/v1/videos"], []]);
  assert.deepEqual(served?.prices, { media_ms: "100" });
  assert.deepEqual(served?.price_variants, [{ size: "1280x720", prices: { media_ms: "300" } }]);
});
