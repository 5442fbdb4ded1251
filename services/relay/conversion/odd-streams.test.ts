import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Units } from "#shared/money/pricing.ts";
import { clients, providers, upstreamDialects } from "../dialects/conversions.ts";
import { emptyTally, type StreamTap, type Tally } from "../dialects/dialect.ts";
import { foldReply, type Block, type Reply } from "../dialects/reply.ts";
import { readStreamEvent } from "../dialects/sse.ts";
import { declaredIn } from "../dialects/testing/ending-kinds.ts";
import { createShownReader } from "../dialects/testing/reading.ts";
import { readType } from "../testing/declared-types.ts";
import { findInvalid } from "../testing/find-invalid.ts";
import { envelopeOf } from "../testing/fakes.ts";
import { createTranslator } from "./convert.ts";

// Streams as compatible servers were seen to send them, beside what their formats' documents say: each must be charged
// as its provider counts, and be a whole answer in every caller's format, by the types of the official clients.

type OddStream = {
  dialect: "openai-chat" | "openai-responses" | "anthropic-messages";
  /** The data of its events; a text is one that is not JSON. */
  events: (object | string)[];
  blocks: Block[];
  reason: string;
};

const chunk = (delta: object, more: object = {}): object => ({
  id: "c",
  model: "served",
  created: 5,
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
});
const chatUsage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const chatEnd = (finish_reason: string): (object | string)[] => [
  chunk({}, { finish_reason }),
  { id: "c", model: "served", choices: [], usage: chatUsage },
  "[DONE]",
];
const fragment = (fields: object): object => chunk({ tool_calls: [fields] });

const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
const response = { id: "resp_1", object: "response", created_at: 5, model: "served", status: "completed", usage };
const created = { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } };
const itemDone = (item: object, output_index = 0): object => ({
  type: "response.output_item.done",
  output_index,
  item,
});

const callOf = (id: string, input: string): Block => ({ kind: "call", id, name: "look", input });
const look = (id: string, input: unknown): object => ({
  id,
  type: "function",
  function: { name: "look", arguments: input },
});
const two = [callOf("a", '{"x":1}'), callOf("b", '{"y":2}')];

const streams: Record<string, OddStream> = {
  "calls whose fragments are mixed": {
    dialect: "openai-chat",
    events: [
      fragment({ index: 0, ...look("a", "") }),
      fragment({ index: 1, ...look("b", "") }),
      fragment({ index: 0, function: { arguments: '{"x":1}' } }),
      fragment({ index: 1, function: { arguments: '{"y":2}' } }),
      ...chatEnd("tool_calls"),
    ],
    blocks: two,
    reason: "calls",
  },
  "a call whose name comes behind its id": {
    dialect: "openai-chat",
    events: [
      fragment({ index: 0, id: "a", type: "function", function: { arguments: "" } }),
      fragment({ index: 0, function: { name: "look", arguments: '{"x":1}' } }),
      ...chatEnd("tool_calls"),
    ],
    blocks: [callOf("a", '{"x":1}')],
    reason: "calls",
  },
  "calls that come whole in one chunk, without an index, one of them parsed, behind which it says stop": {
    dialect: "openai-chat",
    events: [chunk({ tool_calls: [look("a", '{"x":1}'), look("b", { y: 2 })] }), ...chatEnd("stop")],
    blocks: two,
    reason: "calls",
  },
  "the whole message again at the end, with its counts": {
    dialect: "openai-chat",
    events: [
      chunk({ role: "assistant", content: "Hi" }),
      {
        id: "c",
        object: "chat.completion",
        model: "served",
        choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
        usage: chatUsage,
      },
      "[DONE]",
    ],
    blocks: [{ kind: "text", text: "Hi" }],
    reason: "stop",
  },
  "a call whose input is parsed": {
    dialect: "openai-responses",
    events: [
      created,
      itemDone({ type: "function_call", id: "fc_1", call_id: "a", name: "look", arguments: { x: 1 } }),
      { type: "response.completed", response: { ...response, output: [] } },
    ],
    blocks: [callOf("a", '{"x":1}')],
    reason: "calls",
  },
  "calls that are told in turns": {
    dialect: "openai-responses",
    events: [
      created,
      ...["a", "b"].map((call_id, output_index) => ({
        type: "response.output_item.added",
        output_index,
        item: { type: "function_call", id: `fc_${call_id}`, call_id, name: "look", arguments: "" },
      })),
      { type: "response.function_call_arguments.delta", output_index: 0, delta: '{"x":1}' },
      { type: "response.function_call_arguments.delta", output_index: 1, delta: '{"y":2}' },
      itemDone({ type: "function_call", id: "fc_a", call_id: "a", name: "look", arguments: '{"x":1}' }),
      itemDone({ type: "function_call", id: "fc_b", call_id: "b", name: "look", arguments: '{"y":2}' }, 1),
      { type: "response.completed", response: { ...response, output: [] } },
    ],
    blocks: two,
    reason: "calls",
  },
  "a call's input in its start and again in its deltas": {
    dialect: "anthropic-messages",
    events: [
      { type: "message_start", message: { id: "msg_1", model: "served", content: [], usage: { input_tokens: 10 } } },
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "a", name: "look", input: { x: 1 } },
      },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: '{"x":1}' } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 5 } },
      { type: "message_stop" },
      "[DONE]",
    ],
    blocks: [callOf("a", '{"x":1}')],
    reason: "calls",
  },
};

const callers = ["openai-chat", "openai-responses", "anthropic-messages"] as const;
type Caller = (typeof callers)[number];
const modules = join(import.meta.dirname, "../../../node_modules");
const eventTypes = {
  "openai-chat": readType(join(modules, declaredIn.chat), "ChatCompletionChunk"),
  "openai-responses": readType(join(modules, declaredIn.responses), "ResponseStreamEvent"),
  "anthropic-messages": readType(join(modules, declaredIn.messages), "RawMessageStreamEvent"),
};
const clean = <T>(error: T): T => error;
const envelope = envelopeOf({ stream: true, stream_options: { include_usage: true } });

/** What the caller gets of a stream, as the data of its events, and what is charged. */
function watch(tap: StreamTap, { events }: OddStream): { told: string[]; tally: Tally } {
  const tally = emptyTally();
  let told = "";
  for (const event of events) {
    const bytes = Buffer.from(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
    const verdict = tap.read(readStreamEvent(bytes), tally);
    if (typeof verdict !== "string") told += verdict.toString();
    else if (verdict === "pass") told += bytes.toString();
  }
  told += tap.end(tally);
  return { told: told.split("\n").flatMap((line) => (line.startsWith("data: ") ? [line.slice(6)] : [])), tally };
}

function translate(stream: OddStream, to: Caller): ReturnType<typeof watch> {
  const [client, provider] = [clients[to], providers[stream.dialect]];
  assert.ok(client && provider);
  const asked = { model: "m", wantsStreamUsage: true };
  const limits = { contextTokens: 200_000, maxOutputTokens: 64_000 };
  return watch(createTranslator({ conversion: { client, provider }, asked, envelope, clean, limits }), stream);
}

/** What a client of the format reads. */
function readAs(to: Caller, told: readonly string[]): Reply {
  const reader = createShownReader(to);
  const events = told.flatMap((data) => reader.read(data.startsWith("{") ? (JSON.parse(data) as unknown) : data));
  return foldReply([...events, ...reader.end()]);
}

const charged: Units = { inputTokens: 10n, outputTokens: 5n };
const bucketsOf = ({ usage: told = {} }: Tally): Units =>
  Object.fromEntries(Object.entries(told).filter(([, count]) => count > 0n));

// The client makes it of the output.
const madeByClients = /\.output_text is missing$/;

for (const [name, stream] of Object.entries(streams)) {
  describe(`${stream.dialect}: ${name}`, () => {
    test("passes, whole, at its provider's counts", () => {
      const { tally } = watch(upstreamDialects[stream.dialect].createTap(envelope, clean), stream);
      assert.deepEqual([tally.isComplete, bucketsOf(tally)], [true, charged]);
    });

    for (const to of callers) {
      test(`is that answer in ${to}, at the same counts`, () => {
        const { told, tally } = translate(stream, to);
        assert.deepEqual([tally.isComplete, bucketsOf(tally)], [true, charged]);
        const [choice] = readAs(to, told).choices;
        assert.deepEqual(choice?.blocks, stream.blocks);
        assert.equal(choice.reason, stream.reason);
        const data = told.filter((one) => one.startsWith("{")).map((one) => JSON.parse(one) as unknown);
        const problems = data.flatMap((one) => findInvalid(one, eventTypes[to], "event"));
        assert.deepEqual(
          problems.filter((problem) => !madeByClients.test(problem)),
          [],
        );
      });
    }
  });
}
