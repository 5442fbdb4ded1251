import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chat,
  chatEvents,
  endChunk,
  gemini,
  messages,
  plain,
  plainBuckets,
  readEveryWay,
  textChunk,
  type Case,
} from "./testing/usage-cases.ts";

// Counts as providers and compatible servers send them, in every framing that a stream of events may have, against
// buckets that are computed by hand from each provider's own words on its bill.

const cases: Case[] = [
  chat("OpenAI", plain, plainBuckets),
  chat("null details", { ...plain, prompt_tokens_details: null, completion_tokens_details: null }, plainBuckets),
  chat(
    "DeepSeek before it had details",
    { ...plain, prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 },
    { inputTokens: 36n, cacheReadTokens: 64n, outputTokens: 20n },
  ),
  chat(
    "DeepSeek with both names for one cache",
    { ...plain, prompt_tokens_details: { cached_tokens: 64 }, prompt_cache_hit_tokens: 64 },
    { inputTokens: 36n, cacheReadTokens: 64n, outputTokens: 20n },
  ),
  chat("Moonshot", { ...plain, cached_tokens: 40 }, { inputTokens: 60n, cacheReadTokens: 40n, outputTokens: 20n }),
  chat(
    "a gateway to Anthropic",
    { ...plain, cache_read_input_tokens: 30, cache_creation_input_tokens: 50 },
    { inputTokens: 20n, cacheReadTokens: 30n, cacheWrite5mTokens: 50n, outputTokens: 20n },
  ),
  chat(
    "OpenRouter, with a picture and a search",
    {
      ...plain,
      cost: 0.95,
      is_byok: false,
      cost_details: { upstream_inference_cost: 0.9 },
      prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 20, audio_tokens: 0, video_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 4, image_tokens: 12 },
      server_tool_use: { web_search_requests: 2 },
    },
    {
      inputTokens: 70n,
      cacheReadTokens: 10n,
      cacheWrite5mTokens: 20n,
      outputTokens: 4n,
      reasoningTokens: 4n,
      imageOutputTokens: 12n,
      webSearches: 2n,
    },
  ),
  chat(
    "Perplexity's research, billed beside the total",
    { ...plain, citation_tokens: 300, num_search_queries: 7, reasoning_tokens: 5_000, cost: { total_cost: 0.41 } },
    { inputTokens: 400n, outputTokens: 20n, reasoningTokens: 5_000n, webSearches: 7n },
  ),
  chat("SGLang", { ...plain, reasoning_tokens: 8 }, { inputTokens: 100n, outputTokens: 12n, reasoningTokens: 8n }),
  chat(
    "xAI, reasoning beside the completion, and its tools",
    {
      prompt_tokens: 100,
      completion_tokens: 20,
      total_tokens: 170,
      completion_tokens_details: { reasoning_tokens: 50 },
      num_sources_used: 3,
      server_side_tool_usage_details: {
        web_search_calls: 2,
        x_search_calls: 1,
        code_interpreter_calls: 1,
        mcp_calls: 4,
      },
    },
    {
      inputTokens: 100n,
      outputTokens: 20n,
      reasoningTokens: 50n,
      searchSources: 3n,
      webSearches: 2n,
      toolCalls: 1n,
      codeSessions: 1n,
    },
  ),
  chat(
    "Mistral, which has heard something",
    { ...plain, prompt_audio_seconds: 12 },
    { inputTokens: 100n, outputTokens: 20n, mediaMs: 12_000n },
  ),
  chat(
    "a part of a second",
    { ...plain, prompt_audio_seconds: 12.5 },
    { inputTokens: 100n, outputTokens: 20n, mediaMs: 12_500n },
  ),
  chat("no time at all", { ...plain, prompt_audio_seconds: {} }, plainBuckets),
  chat(
    "sound in and out",
    {
      ...plain,
      prompt_tokens_details: { audio_tokens: 90 },
      completion_tokens_details: { audio_tokens: 15, reasoning_tokens: 0 },
    },
    { inputTokens: 10n, audioInputTokens: 90n, outputTokens: 5n, audioOutputTokens: 15n },
  ),
  chatEvents("Groq's own name", [textChunk, { ...endChunk, x_groq: { id: "r", usage: plain } }, "[DONE]"]),
  chatEvents("Moonshot, within the choice", [
    textChunk,
    { choices: [{ ...endChunk.choices[0], usage: plain }] },
    "[DONE]",
  ]),
  chatEvents("beside the finish_reason", [textChunk, { ...endChunk, usage: plain }, "[DONE]"]),
  chatEvents("null in all chunks but the last", [
    { ...textChunk, usage: null },
    { ...endChunk, usage: null },
    { choices: [], usage: plain },
    "[DONE]",
  ]),
  chatEvents("choices null beside the counts", [textChunk, endChunk, { choices: null, usage: plain }, "[DONE]"]),
  chatEvents("no choices beside the counts", [textChunk, endChunk, { usage: plain }, "[DONE]"]),
  chatEvents("counts of 0 while it runs", [
    { ...textChunk, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } },
    { ...endChunk, usage: plain },
    "[DONE]",
  ]),
  chatEvents("counts of 0 behind the real ones", [
    textChunk,
    { ...endChunk, usage: plain },
    { choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } },
    "[DONE]",
  ]),
  chatEvents("counts that grow in each chunk", [
    { ...textChunk, usage: { prompt_tokens: 100, completion_tokens: 1, total_tokens: 101 } },
    { ...textChunk, usage: { prompt_tokens: 100, completion_tokens: 9, total_tokens: 109 } },
    { ...endChunk, usage: plain },
    "[DONE]",
  ]),
  messages(
    "Anthropic",
    { input_tokens: 100, output_tokens: 1 },
    { output_tokens: 20 },
    { inputTokens: 100n, outputTokens: 20n },
  ),
  messages(
    "a compatible server that knows its input at the end",
    { input_tokens: 0, output_tokens: 0 },
    { input_tokens: 100, cache_read_input_tokens: 7, output_tokens: 20 },
    { inputTokens: 100n, cacheReadTokens: 7n, outputTokens: 20n },
  ),
  messages(
    "input that moved into the cache",
    { input_tokens: 100, output_tokens: 1 },
    { input_tokens: 0, cache_read_input_tokens: 100, output_tokens: 20 },
    { cacheReadTokens: 100n, outputTokens: 20n },
  ),
  messages(
    "compaction and an adviser",
    { input_tokens: 2_000, output_tokens: 1 },
    {
      input_tokens: 2_000,
      output_tokens: 40,
      iterations: [
        { type: "compaction", input_tokens: 50_000, output_tokens: 900 },
        { type: "advisor_message", model: "other", input_tokens: 10, output_tokens: 5 },
        { type: "message", input_tokens: 2_000, output_tokens: 40 },
      ],
      server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 },
    },
    { inputTokens: 52_010n, outputTokens: 945n, webSearches: 2n, webFetches: 1n },
  ),
  messages(
    "both retentions of the cache",
    {
      input_tokens: 5,
      cache_creation_input_tokens: 30,
      cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
      output_tokens: 1,
    },
    { output_tokens: 20 },
    { inputTokens: 5n, cacheWrite5mTokens: 10n, cacheWrite1hTokens: 20n, outputTokens: 20n },
  ),
  {
    name: "message_start with the whole answer",
    dialect: "anthropic-messages",
    events: [
      {
        type: "message_start",
        message: {
          content: [{ type: "tool_use", id: "t", name: "look", input: { at: "it" } }],
          stop_reason: "tool_use",
          usage: { input_tokens: 100, output_tokens: 20 },
        },
      },
      { type: "message_stop" },
    ],
    buckets: plainBuckets,
  },
  gemini(
    "Gemini",
    { promptTokenCount: 100, candidatesTokenCount: 20, thoughtsTokenCount: 50, totalTokenCount: 170 },
    { inputTokens: 100n, outputTokens: 20n, reasoningTokens: 50n },
  ),
  gemini(
    "Gemini, thoughts within the candidates",
    { promptTokenCount: 100, candidatesTokenCount: 70, thoughtsTokenCount: 50, totalTokenCount: 170 },
    { inputTokens: 100n, outputTokens: 20n, reasoningTokens: 50n },
  ),
  gemini(
    "Gemini, thoughts in the total only",
    { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 170 },
    { inputTokens: 100n, outputTokens: 20n, reasoningTokens: 50n },
  ),
  gemini(
    "Gemini, all kinds of tokens, of a cache and of tools",
    {
      promptTokenCount: 1_000,
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 100 },
        { modality: "IMAGE", tokenCount: 500 },
        { modality: "AUDIO", tokenCount: 300 },
        { modality: "VIDEO", tokenCount: 100 },
      ],
      cachedContentTokenCount: 400,
      cacheTokensDetails: [{ modality: "IMAGE", tokenCount: 400 }],
      toolUsePromptTokenCount: 30,
      toolUsePromptTokensDetails: [{ modality: "TEXT", tokenCount: 30 }],
      candidatesTokenCount: 1_310,
      candidatesTokensDetails: [
        { modality: "IMAGE", tokenCount: 1_290 },
        { modality: "TEXT", tokenCount: 20 },
      ],
      totalTokenCount: 2_340,
    },
    {
      inputTokens: 230n,
      cacheReadTokens: 400n,
      imageInputTokens: 100n,
      audioInputTokens: 300n,
      outputTokens: 20n,
      imageOutputTokens: 1_290n,
    },
  ),
  gemini(
    "Gemini 3, billed by the search",
    { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 },
    {
      ...plainBuckets,
      webSearches: 2n,
    },
    { groundingMetadata: { webSearchQueries: ["one", "two"] } },
  ),
  {
    name: "Gemini 2.5, billed by the prompt",
    dialect: "gemini-generate",
    whole: {
      modelVersion: "gemini-2.5-flash",
      candidates: [{ content: { parts: [{ text: "x" }] }, groundingMetadata: { webSearchQueries: ["one", "two"] } }],
      usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 },
    },
    buckets: { ...plainBuckets, webSearches: 1n },
  },
  {
    name: "an answer from Google's maps",
    dialect: "gemini-generate",
    whole: {
      modelVersion: "gemini-2.5-flash",
      candidates: [{ content: { parts: [{ text: "x" }] }, groundingMetadata: { groundingChunks: [{ maps: {} }] } }],
      usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 },
    },
    buckets: { ...plainBuckets, toolCalls: 1n },
  },
];

for (const one of cases) {
  test(`whole, and streamed in every framing: ${one.name}`, () => {
    for (const { way, buckets } of readEveryWay(one)) assert.deepEqual(buckets, one.buckets, way);
  });
}
