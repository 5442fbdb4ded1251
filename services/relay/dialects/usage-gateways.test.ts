import assert from "node:assert/strict";
import { test } from "node:test";
import { chat, plain, plainBuckets, responses, readEveryWay, type Case } from "./testing/usage-cases.ts";

// What gateways and compatible servers bill and OpenAI has no field for, by their own documents of November 2026.

const plainOfResponses = { input_tokens: 100, output_tokens: 20, total_tokens: 120 };

const cases: Case[] = [
  chat(
    "OpenRouter, by its newer name for the tools that it ran",
    { ...plain, server_tool_use_details: { tool_calls_requested: 3, tool_calls_executed: 2, web_search_requests: 2 } },
    { ...plainBuckets, webSearches: 2n },
  ),
  chat(
    "OpenRouter, by both of its names",
    { ...plain, server_tool_use: { web_search_requests: 2 }, server_tool_use_details: { web_search_requests: 2 } },
    { ...plainBuckets, webSearches: 2n },
  ),
  chat(
    "DashScope, which writes to a cache",
    {
      ...plain,
      prompt_tokens_details: {
        cached_tokens: 30,
        cache_type: "ephemeral",
        cache_creation_input_tokens: 50,
        cache_creation: { ephemeral_5m_input_tokens: 50 },
      },
    },
    { inputTokens: 20n, cacheReadTokens: 30n, cacheWrite5mTokens: 50n, outputTokens: 20n },
  ),
  chat(
    "a gateway to Anthropic that tells both retentions",
    {
      ...plain,
      cache_creation_input_tokens: 60,
      prompt_tokens_details: {
        cache_creation_tokens: 60,
        cache_creation_token_details: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 40 },
      },
    },
    { inputTokens: 40n, cacheWrite5mTokens: 20n, cacheWrite1hTokens: 40n, outputTokens: 20n },
  ),
  chat(
    "DashScope, which searched",
    { ...plain, plugins: { search: { count: 2, strategy: "agent" } } },
    { ...plainBuckets, webSearches: 2n },
  ),
  responses(
    "DashScope, which tells its searches under both names",
    { ...plainOfResponses, x_tools: { web_search: { count: 2 } }, plugins: { search: { count: 2 } } },
    { ...plainBuckets, webSearches: 2n },
  ),
  responses(
    "DashScope's responses, whose bill is a list beside the counts",
    {
      input_tokens: 1_524,
      input_tokens_details: { cached_tokens: 1_305 },
      output_tokens: 34,
      output_tokens_details: { reasoning_tokens: 4 },
      total_tokens: 1_558,
      x_details: [
        {
          input_tokens: 1_524,
          prompt_tokens_details: { cache_creation_input_tokens: 213, cached_tokens: 1_305, cache_type: "ephemeral" },
          x_billing_type: "response_api",
        },
      ],
      x_tools: { web_search: { count: 2 }, web_extractor: { count: 1 } },
    },
    {
      inputTokens: 6n,
      cacheReadTokens: 1_305n,
      cacheWrite5mTokens: 213n,
      outputTokens: 30n,
      reasoningTokens: 4n,
      webSearches: 2n,
      webFetches: 1n,
    },
  ),
  responses(
    "Perplexity's responses",
    {
      input_tokens: 100,
      input_tokens_details: { cache_read_input_tokens: 40, cache_creation_input_tokens: 10 },
      output_tokens: 20,
      total_tokens: 120,
      tool_calls_details: { search_web: { invocation: 3 }, fetch_url: { invocation: 1 } },
      cost: { currency: "USD", total_cost: 0.02 },
    },
    {
      inputTokens: 50n,
      cacheReadTokens: 40n,
      cacheWrite5mTokens: 10n,
      outputTokens: 20n,
      webSearches: 3n,
      webFetches: 1n,
    },
  ),
  chat(
    "xAI, of a model that counts what it read from the cache beside the prompt",
    {
      prompt_tokens: 4_142,
      completion_tokens: 254,
      total_tokens: 4_396,
      prompt_tokens_details: { cached_tokens: 4_328 },
    },
    { inputTokens: 4_142n, cacheReadTokens: 4_328n, outputTokens: 254n },
  ),
  chat(
    "a gateway that counts all that was cached beside the prompt, and in the total",
    {
      ...plain,
      total_tokens: 170,
      prompt_tokens_details: { cached_tokens: 30 },
      cache_creation_input_tokens: 20,
    },
    { inputTokens: 100n, cacheReadTokens: 30n, cacheWrite5mTokens: 20n, outputTokens: 20n },
  ),
  chat(
    "the same with reasoning beside the completion",
    {
      ...plain,
      total_tokens: 157,
      prompt_tokens_details: { cached_tokens: 30 },
      completion_tokens_details: { reasoning_tokens: 7 },
    },
    { inputTokens: 100n, cacheReadTokens: 30n, outputTokens: 20n, reasoningTokens: 7n },
  ),
  chat(
    "Sakana, whose models run others and bill them beside what they say",
    {
      prompt_tokens: 212,
      completion_tokens: 522,
      total_tokens: 7_250,
      prompt_tokens_details: { orchestration_input_tokens: 5_463, orchestration_input_cached_tokens: 63 },
      completion_tokens_details: { reasoning_tokens: 22, orchestration_output_tokens: 1_053 },
    },
    { inputTokens: 5_612n, cacheReadTokens: 63n, outputTokens: 1_553n, reasoningTokens: 22n },
  ),
  chat(
    "the same in a total that leaves them out, with an input that was cached",
    {
      ...plain,
      prompt_tokens_details: { cached_tokens: 30, orchestration_input_tokens: 40 },
      completion_tokens_details: { orchestration_output_tokens: 7 },
    },
    { inputTokens: 110n, cacheReadTokens: 30n, outputTokens: 27n },
  ),
  responses(
    "Sakana's responses",
    {
      input_tokens: 212,
      input_tokens_details: {
        cached_tokens: 12,
        orchestration_input_tokens: 5_463,
        orchestration_input_cached_tokens: 63,
      },
      output_tokens: 522,
      output_tokens_details: { reasoning_tokens: 22, orchestration_output_tokens: 1_053 },
      total_tokens: 7_250,
    },
    { inputTokens: 5_600n, cacheReadTokens: 75n, outputTokens: 1_553n, reasoningTokens: 22n },
  ),
  chat(
    "LiteLLM, which tells searches and retention among the details of the prompt",
    {
      ...plain,
      prompt_tokens_details: {
        web_search_requests: 2,
        google_maps_grounding_requests: 1,
        cache_write_tokens: 60,
        cache_creation_token_details: { ephemeral_30m_input_tokens: 20, ephemeral_12h_input_tokens: 40 },
      },
    },
    {
      inputTokens: 40n,
      cacheWrite5mTokens: 20n,
      cacheWrite1hTokens: 40n,
      outputTokens: 20n,
      webSearches: 2n,
      toolCalls: 1n,
    },
  ),
  chat(
    "LiteLLM, of searches that xAI has told as well",
    {
      ...plain,
      prompt_tokens_details: { web_search_requests: 2 },
      server_side_tool_usage_details: { web_search_calls: 2 },
    },
    { ...plainBuckets, webSearches: 2n },
  ),
  chat(
    "Mistral, by its other name for the details",
    { ...plain, prompt_token_details: { cached_tokens: 30 } },
    { inputTokens: 70n, cacheReadTokens: 30n, outputTokens: 20n },
  ),
  responses(
    "xAI's responses of such a model",
    { input_tokens: 40, input_tokens_details: { cached_tokens: 60 }, output_tokens: 20, total_tokens: 60 },
    { inputTokens: 40n, cacheReadTokens: 60n, outputTokens: 20n },
  ),
  responses(
    "responses whose total has what was cached",
    { input_tokens: 40, input_tokens_details: { cached_tokens: 30 }, output_tokens: 20, total_tokens: 90 },
    { inputTokens: 40n, cacheReadTokens: 30n, outputTokens: 20n },
  ),
  responses(
    "commands that ran in the provider's containers, and one that the caller runs",
    { input_tokens: 100, output_tokens: 20, total_tokens: 120 },
    { ...plainBuckets, codeSessions: 3n },
    [
      { type: "shell_call", id: "a", environment: { type: "container_reference", container_id: "one" } },
      { type: "shell_call", id: "b", environment: { type: "container_reference", container_id: "three" } },
      { type: "code_interpreter_call", id: "c", container_id: "one" },
      { type: "code_interpreter_call", id: "d", container_id: "two" },
      { type: "shell_call", id: "e", environment: { type: "local" } },
      { type: "shell_call", id: "f", environment: null },
    ],
  ),
];

// Of https://console.groq.com/docs/compound/built-in-tools and https://console.groq.com/docs/browser-search.
const executed = (index: number, tool: object) => ({ index, arguments: "{}", output: null, ...tool });
const tools = [
  executed(0, { type: "search" }),
  executed(1, { type: "visit" }),
  executed(2, { type: "python" }),
  executed(3, { type: "function", name: "browser.search" }),
  executed(4, { type: "function", name: "browser.open" }),
  executed(5, { type: "browser_automation" }),
];

const groq: Case = {
  name: "Groq, of tools that it ran, each told when it began and when it had ended",
  dialect: "openai-chat",
  whole: {
    choices: [{ index: 0, message: { content: "Hello there", executed_tools: tools }, finish_reason: "stop" }],
    usage: plain,
  },
  events: [
    ...tools.map((tool) => ({ choices: [{ index: 0, delta: { executed_tools: [tool] }, finish_reason: null }] })),
    { choices: [{ index: 0, delta: { content: "Hello there", executed_tools: tools.slice(2) }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: "stop" }], x_groq: { usage: plain } },
    "[DONE]",
  ],
  buckets: { ...plainBuckets, webSearches: 2n, webFetches: 2n, codeSessions: 1n, toolCalls: 1n },
};

// Zhipu shows the results of its search beside the choices, some of its models in each chunk.
const found = [{ title: "x", link: "https://example.com/", refer: "ref_1" }];
const zhipu: Case = {
  name: "Zhipu, which searched once",
  dialect: "openai-chat",
  whole: {
    choices: [{ index: 0, message: { content: "Hello there" }, finish_reason: "stop" }],
    usage: plain,
    web_search: found,
  },
  events: [
    { choices: [{ index: 0, delta: { content: "Hello there" }, finish_reason: null }], web_search: found },
    { choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: plain, web_search: found },
    "[DONE]",
  ],
  buckets: { ...plainBuckets, webSearches: 1n },
};

for (const one of [...cases, groq, zhipu]) {
  test(`whole, and streamed in every framing: ${one.name}`, () => {
    for (const { way, buckets } of readEveryWay(one)) assert.deepEqual(buckets, one.buckets, way);
  });
}
