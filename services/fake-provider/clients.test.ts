import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { startFakeUpstream, type FakeUpstream } from "./upstream.ts";

// The providers' own clients are the judges of the shapes: what they read as right is right.

const openaiFor = (upstream: FakeUpstream): OpenAI =>
  new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: "sk-test", maxRetries: 0 });
const anthropicFor = (upstream: FakeUpstream): Anthropic =>
  new Anthropic({ baseURL: upstream.url, apiKey: "sk-test", maxRetries: 0 });

const chatAsk = { model: "gpt-fake", messages: [{ role: "user" as const, content: "one two three" }] };
const messagesAsk = { ...chatAsk, model: "claude-fake", max_tokens: 1_000 };

const weather = { name: "get_weather", arguments: { city: "New York City", days: 2 } };
const clock = { name: "get_time", arguments: {} };

const claimed = {
  inputTokens: 100,
  cacheReadTokens: 40,
  cacheWrite5mTokens: 30,
  cacheWrite1hTokens: 20,
  outputTokens: 12,
  reasoningTokens: 7,
};

test("openai reads a whole chat answer, its usage and its request id", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "Hello there, you.", usage: claimed } });
  const {
    data,
    response,
    request_id: requestId,
  } = await openaiFor(upstream).chat.completions.create(chatAsk).withResponse();
  assert.equal(data.choices[0]?.message.content, "Hello there, you.");
  assert.equal(data.choices[0]?.finish_reason, "stop");
  assert.match(data.id, /^chatcmpl-\w{29}$/);
  assert.deepEqual(
    [data.usage?.prompt_tokens, data.usage?.completion_tokens, data.usage?.total_tokens],
    [190, 19, 209],
  );
  assert.equal(data.usage?.prompt_tokens_details?.cached_tokens, 40);
  assert.equal(data.usage?.completion_tokens_details?.reasoning_tokens, 7);
  assert.equal(requestId, response.headers.get("x-request-id"));
  assert.equal(response.headers.get("content-type"), "application/json");
});

test("openai gathers a streamed chat answer with tools and usage", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "Let me look.", tools: [weather, clock] } });
  const stream = openaiFor(upstream).chat.completions.stream({ ...chatAsk, stream_options: { include_usage: true } });
  const whole = await stream.finalChatCompletion();
  const message = whole.choices[0]?.message;
  assert.equal(message?.content, "Let me look.");
  assert.deepEqual(
    message?.tool_calls?.map((call) => call.type === "function" && [call.function.name, call.function.arguments]),
    [weather, clock].map(({ name, arguments: values }) => [name, JSON.stringify(values)]),
  );
  assert.equal(whole.choices[0]?.finish_reason, "tool_calls");
  // Three words; two calls, one with arguments of three words, one with "{}".
  assert.deepEqual([whole.usage?.prompt_tokens, whole.usage?.completion_tokens], [3, 3 + 1 + 3 + 1 + 1]);
  assert.equal(upstream.truth[0]?.tokensEmitted, whole.usage?.completion_tokens);
});

test("openai gathers n streamed choices, and all of them are counted", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "same words here" } });
  const ask = { ...chatAsk, n: 3, stream_options: { include_usage: true } };
  const whole = await openaiFor(upstream).chat.completions.stream(ask).finalChatCompletion();
  assert.deepEqual(
    whole.choices.map(({ index, message }) => [index, message.content]),
    [0, 1, 2].map((index) => [index, "same words here"]),
  );
  assert.equal(whole.usage?.completion_tokens, 9);
});

const chatErrors: [number, new (...args: never[]) => Error, string | null][] = [
  [400, OpenAI.BadRequestError, "context_length_exceeded"],
  [401, OpenAI.AuthenticationError, "invalid_api_key"],
  [403, OpenAI.PermissionDeniedError, "unsupported_country_region_territory"],
  [404, OpenAI.NotFoundError, "model_not_found"],
  [413, OpenAI.APIError, null],
  [422, OpenAI.UnprocessableEntityError, null],
  [429, OpenAI.RateLimitError, "rate_limit_exceeded"],
  [500, OpenAI.InternalServerError, null],
  [503, OpenAI.InternalServerError, "server_is_overloaded"],
];

for (const [status, type, code] of chatErrors) {
  test(`openai reads the error ${status} as its own type with its code`, async () => {
    await using upstream = await startFakeUpstream({ behaviour: { status } });
    await assert.rejects(openaiFor(upstream).chat.completions.create(chatAsk), (error) => {
      assert.ok(error instanceof type && error instanceof OpenAI.APIError);
      assert.deepEqual([error.status, error.code], [status, code]);
      assert.equal(error.headers?.get("retry-after"), status === 429 ? "7" : null);
      return true;
    });
    assert.equal(upstream.truth[0]?.ended, "refused");
  });
}

test("openai throws at an error within a stream, after the chunks before it", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { fault: { kind: "error-event", afterChunks: 2 } } });
  const stream = await openaiFor(upstream).chat.completions.create({ ...chatAsk, stream: true });
  let said = "";
  const reading = async (): Promise<void> => {
    for await (const chunk of stream) said += chunk.choices[0]?.delta.content ?? "";
  };
  await assert.rejects(reading(), OpenAI.APIError);
  assert.equal(said, "word1 word2");
});

test("anthropic reads a whole message, its usage by cache time and its request id", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "Hello there, you.", usage: claimed } });
  const {
    data,
    response,
    request_id: requestId,
  } = await anthropicFor(upstream).messages.create(messagesAsk).withResponse();
  assert.deepEqual(data.content, [{ type: "text", text: "Hello there, you." }]);
  assert.equal(data.stop_reason, "end_turn");
  assert.match(data.id, /^msg_01\w{22}$/);
  assert.deepEqual(
    [data.usage.input_tokens, data.usage.cache_read_input_tokens, data.usage.cache_creation_input_tokens],
    [100, 40, 50],
  );
  assert.deepEqual(data.usage.cache_creation, { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 20 });
  assert.equal(data.usage.output_tokens, 19);
  assert.equal(requestId, response.headers.get("request-id"));
});

test("anthropic gathers a streamed message of thinking, text and tools", async () => {
  const behaviour = { thinking: "Let me think.", text: "I will look.", tools: [weather, clock] };
  await using upstream = await startFakeUpstream({ behaviour });
  const whole = await anthropicFor(upstream).messages.stream(messagesAsk).finalMessage();
  const [thinking, text, ...tools] = whole.content;
  assert.deepEqual(thinking?.type === "thinking" && [thinking.thinking, thinking.signature !== ""], [
    "Let me think.",
    true,
  ]);
  assert.deepEqual(text?.type === "text" && text.text, "I will look.");
  assert.deepEqual(
    tools.map((block) => block.type === "tool_use" && { name: block.name, arguments: block.input }),
    [weather, clock],
  );
  assert.equal(whole.stop_reason, "tool_use");
  assert.equal(whole.usage.output_tokens, 3 + 3 + 1 + 3 + 1 + 1);
  assert.equal(upstream.truth[0]?.tokensEmitted, whole.usage.output_tokens);
});

test("a message stream has the events in the provider's order, a placeholder count first and the final one last", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "a b c d e", usage: claimed } });
  const stream = await anthropicFor(upstream)
    .messages.create({ ...messagesAsk, stream: true })
    .asResponse();
  const records = (await stream.text()).trimEnd().split("\n\n");
  const names = records.map((record) => /^event: (\w+)\ndata: \{"type":"(\w+)"/.exec(record)?.slice(1));
  assert.ok(names.every((pair) => pair?.[0] === pair?.[1]));
  assert.deepEqual(
    names.map((pair) => pair?.[0]),
    [
      "message_start",
      "content_block_start",
      "ping",
      ...Array.from({ length: 5 }, () => "content_block_delta"),
      "content_block_stop",
      "message_delta",
      "message_stop",
    ],
  );
  assert.match(records[0] ?? "", /"output_tokens":2,/);
  assert.match(records.at(-2) ?? "", /"stop_reason":"end_turn".*"output_tokens":19/);
});

const messagesErrors: [number, new (...args: never[]) => Error, string][] = [
  [400, Anthropic.BadRequestError, "invalid_request_error"],
  [401, Anthropic.AuthenticationError, "authentication_error"],
  [403, Anthropic.PermissionDeniedError, "permission_error"],
  [404, Anthropic.NotFoundError, "not_found_error"],
  [413, Anthropic.ContentTooLargeError, "request_too_large"],
  [422, Anthropic.UnprocessableEntityError, "invalid_request_error"],
  [429, Anthropic.RateLimitError, "rate_limit_error"],
  [500, Anthropic.InternalServerError, "api_error"],
  [503, Anthropic.InternalServerError, "api_error"],
  [529, Anthropic.OverloadedError, "overloaded_error"],
];

for (const [status, type, name] of messagesErrors) {
  test(`anthropic reads the error ${status} as its own type with its name`, async () => {
    await using upstream = await startFakeUpstream({ behaviour: { status, retryAfterSeconds: 3 } });
    await assert.rejects(anthropicFor(upstream).messages.create(messagesAsk), (error) => {
      assert.ok(error instanceof type && error instanceof Anthropic.APIError);
      assert.deepEqual([error.status, error.type, error.headers?.get("retry-after")], [status, name, "3"]);
      return true;
    });
  });
}

test("anthropic throws at an error event within a stream", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { fault: { kind: "error-event", afterChunks: 2 } } });
  const reading = anthropicFor(upstream).messages.stream(messagesAsk).finalMessage();
  await assert.rejects(reading, (error) => error instanceof Anthropic.APIError && error.type === "overloaded_error");
});

test("a call without a key is refused with 401 in both shapes", async () => {
  await using upstream = await startFakeUpstream();
  for (const [path, version] of [
    ["chat/completions", {}],
    ["messages", { "anthropic-version": "2023-06-01" }],
  ] as const) {
    const response = await fetch(`${upstream.url}/v1/${path}`, { method: "POST", headers: version, body: "{}" });
    assert.equal(response.status, 401);
  }
});

test("both clients list the models in their own shape", async () => {
  await using upstream = await startFakeUpstream({ models: ["gpt-fake", "claude-fake"] });
  const openaiIds = (await openaiFor(upstream).models.list()).data.map(({ id }) => id);
  const anthropicIds = (await anthropicFor(upstream).models.list()).data.map(({ id }) => id);
  assert.deepEqual(
    [openaiIds, anthropicIds],
    [
      ["gpt-fake", "claude-fake"],
      ["gpt-fake", "claude-fake"],
    ],
  );
});
