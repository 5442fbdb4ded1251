import assert from "node:assert/strict";
import { test } from "node:test";
import { convertReply, createTranslator } from "./convert.ts";
import { clients, providers, upstreamDialects } from "./dialects/conversions.ts";
import { emptyTally, type DialectName, type Tally } from "./dialects/dialect.ts";
import { eventJson, readStreamEvent } from "./dialects/sse.ts";
import { envelopeOf } from "./testing/fakes.ts";

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
  const dialect = upstreamDialects[from];
  const tally = dialect.readReply(body, envelopeOf());
  assert.ok(tally);
  const whole = convertReply(body, conversion, { asked, tally });
  assert.ok(whole);
  const clean = <T>(error: T): T => error;
  const tap = dialect.createTap(envelopeOf({ stream: true }), clean);
  const translator = createTranslator({ conversion, asked, tap, clean });
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

const wholeAtOnce = { ...message, stop_reason: "end_turn", usage: { input_tokens: 25, output_tokens: 9 } };

for (const to of callers) {
  test(`an answer that message_start holds whole is shown with its content and counts: ${to}`, () => {
    const conversion = cellOf("anthropic-messages", to);
    const clean = <T>(error: T): T => error;
    const tap = upstreamDialects["anthropic-messages"].createTap(envelopeOf({ stream: true }), clean);
    const translator = createTranslator({ conversion, asked, tap, clean });
    const tally = emptyTally();
    const read = (event: object): string =>
      String(translator.read(readStreamEvent(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)), tally));
    const told = read({ type: "message_start", message: wholeAtOnce }) + read({ type: "message_stop" });
    assert.ok(told.includes('"Hi"'), told);
    assert.match(told, /"(completion|output)_tokens":9\b/);
    assert.deepEqual([tally.isComplete, tally.usage?.outputTokens], [true, 9n]);
  });
}
