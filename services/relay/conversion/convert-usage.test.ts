import assert from "node:assert/strict";
import { test } from "node:test";
import { convertReply, createTranslator } from "./convert.ts";
import { clients, providers } from "../dialects/conversions.ts";
import { emptyTally, type DialectName, type Tally } from "../dialects/dialect.ts";
import { eventJson, readStreamEvent } from "../dialects/sse.ts";
import { envelopeOf } from "../testing/fakes.ts";

const limits = { contextTokens: 200_000, maxOutputTokens: 64_000 };
const asked = { model: "m", wantsStreamUsage: true };
const callers = ["openai-chat", "openai-responses", "anthropic-messages"] as const;
type Upstream = "openai-chat" | "openai-responses" | "anthropic-messages";

const cellOf = (from: Upstream, to: DialectName) => {
  const [client, provider] = [clients[to], providers[from]];
  assert.ok(client && provider);
  return { client, provider };
};

const usageIn = (text: string): unknown[] => {
  const found: unknown[] = [];
  JSON.parse(text, (name, value: unknown) => {
    if (name === "usage" && typeof value === "object" && value !== null) found.push(value);
    return value;
  });
  return found;
};

/** The usage that a caller is shown of an answer, whole and as the last of a stream. */
function shown(from: Upstream, to: DialectName, body: object, events: object[]): [whole: unknown, streamed: unknown] {
  const conversion = cellOf(from, to);
  const envelope = envelopeOf({ stream: true });
  const whole = convertReply(body, { conversion, asked, envelope, limits })?.body;
  assert.ok(whole);
  const clean = <T>(error: T): T => error;
  const translator = createTranslator({ conversion, asked, envelope, clean, limits });
  const streamTally: Tally = emptyTally();
  let told = "";
  for (const event of events) {
    const verdict = translator.read(readStreamEvent(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)), streamTally);
    if (typeof verdict !== "string") told += verdict.toString();
  }
  const lines = told.split("\n").filter((line) => line.startsWith("data: {"));
  assert.ok(lines.every((line) => eventJson(line.slice(6))));
  return [usageIn(whole.toString()).at(-1), lines.flatMap((line) => usageIn(line.slice(6))).at(-1)];
}

const compacted = {
  input_tokens: 2_000,
  output_tokens: 40,
  server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 },
  iterations: [
    { type: "compaction", input_tokens: 50_000, output_tokens: 900 },
    { type: "message", input_tokens: 2_000, output_tokens: 40 },
  ],
};
const message = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-served",
  content: [{ type: "text", text: "Hi" }],
  stop_reason: "end_turn",
  usage: compacted,
};
const messageEvents = [
  { type: "message_start", message: { ...message, content: [], stop_reason: null, usage: { input_tokens: 5 } } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "Hi" } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: compacted },
  { type: "message_stop" },
];

const tools = { web_search_requests: 2, web_fetch_requests: 1 };
const fromMessages: Record<(typeof callers)[number], object> = {
  "openai-chat": { prompt_tokens: 52_000, completion_tokens: 940, total_tokens: 52_940, server_tool_use: tools },
  "openai-responses": { input_tokens: 52_000, output_tokens: 940, total_tokens: 52_940, server_tool_use: tools },
  "anthropic-messages": { input_tokens: 52_000, output_tokens: 940, server_tool_use: tools },
};

for (const to of callers) {
  test(`all runs and tools of a message are shown, whole and streamed: ${to}`, () => {
    for (const usage of shown("anthropic-messages", to, message, messageEvents)) {
      assert.partialDeepStrictEqual(usage, fromMessages[to]);
    }
  });
}

for (const to of callers) {
  test(`counts that cannot be are shown as they are charged: ${to}`, () => {
    const usage = { input_tokens: 9e15, output_tokens: 9, server_tool_use: { web_search_requests: 9e15 } };
    const [start, ...rest] = messageEvents;
    const events = [
      { ...start, message: { ...message, content: [], stop_reason: null, usage } },
      ...rest.map((event) => ("usage" in event ? { ...event, usage } : event)),
    ];
    for (const told of shown("anthropic-messages", to, { ...message, usage }, events)) {
      assert.doesNotMatch(JSON.stringify(told), /9000000000000000/);
      assert.match(JSON.stringify(told), /"(input|prompt)_tokens":200000\b/);
    }
  });
}

const wholeAtOnce = { ...message, stop_reason: "end_turn", usage: { input_tokens: 25, output_tokens: 9 } };

for (const to of callers) {
  test(`an answer that message_start holds whole is shown with its content and counts: ${to}`, () => {
    const conversion = cellOf("anthropic-messages", to);
    const clean = <T>(error: T): T => error;
    const translator = createTranslator({ conversion, asked, envelope: envelopeOf({ stream: true }), clean, limits });
    const tally = emptyTally();
    const read = (event: object): string =>
      String(translator.read(readStreamEvent(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)), tally));
    const told = read({ type: "message_start", message: wholeAtOnce }) + read({ type: "message_stop" });
    assert.ok(told.includes('"Hi"'), told);
    assert.match(told, /"(completion|output)_tokens":9\b/);
    assert.deepEqual([tally.isComplete, tally.usage?.outputTokens], [true, 9n]);
  });
}

const searched = {
  id: "resp_1",
  object: "response",
  model: "gpt-served",
  status: "completed",
  output: [
    { type: "web_search_call", action: { type: "search" } },
    { type: "web_search_call", action: { type: "open_page" } },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hi", annotations: [] }] },
  ],
  usage: {
    input_tokens: 100,
    input_tokens_details: {
      cache_write_tokens: 80,
      cache_write_tokens_details: { ttl_30m_tokens: 50, ttl_12h_tokens: 30 },
    },
    output_tokens: 4,
    total_tokens: 104,
  },
};
const searchedEvents = [
  { type: "response.created", response: { ...searched, status: "in_progress", output: [], usage: null } },
  ...searched.output.map((item, output_index) => ({ type: "response.output_item.done", output_index, item })),
  { type: "response.completed", response: { ...searched, output: [] } },
];

test("searches and cache writes of a response are shown to callers of other formats, whole and streamed", () => {
  const tools = { web_search_requests: 1, web_fetch_requests: 0 };
  for (const usage of shown("openai-responses", "anthropic-messages", searched, searchedEvents)) {
    assert.partialDeepStrictEqual(usage, { input_tokens: 20, cache_creation_input_tokens: 80, server_tool_use: tools });
  }
  for (const usage of shown("openai-responses", "openai-chat", searched, searchedEvents)) {
    const details = { cache_write_tokens: 80 };
    assert.partialDeepStrictEqual(usage, {
      prompt_tokens: 100,
      prompt_tokens_details: details,
      server_tool_use: tools,
    });
  }
  const [whole] = shown("openai-responses", "anthropic-messages", searched, searchedEvents);
  const kept = { ephemeral_5m_input_tokens: 50, ephemeral_1h_input_tokens: 30 };
  assert.partialDeepStrictEqual(whole, { cache_creation: kept });
});

test("reasoning that only the total tells is shown to callers of other formats", () => {
  const quirks = new Set(["reasoning-in-total"] as const);
  const usage = { prompt_tokens: 40, completion_tokens: 7, total_tokens: 109 };
  const body = { id: "c", choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }], usage };
  const envelope = envelopeOf({ stream: true });
  const conversion = cellOf("openai-chat", "anthropic-messages");
  const whole = convertReply(body, { conversion, asked, envelope, quirks, limits })?.body;
  const thought = { output_tokens: 69, output_tokens_details: { thinking_tokens: 62 } };
  assert.partialDeepStrictEqual(usageIn(String(whole)).at(-1), thought);
  const clean = <T>(error: T): T => error;
  const translator = createTranslator({
    conversion: cellOf("openai-chat", "openai-responses"),
    asked,
    envelope,
    quirks,
    clean,
    limits,
  });
  const chunk = { id: "c", choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: "stop" }], usage };
  const streamTally = emptyTally();
  const told = [JSON.stringify(chunk), "[DONE]"].map((data) =>
    String(translator.read(readStreamEvent(Buffer.from(`data: ${data}\n\n`)), streamTally)),
  );
  assert.match(told.join(""), /"output_tokens":69,"output_tokens_details":\{"reasoning_tokens":62\}/);
});
