import Anthropic from "@anthropic-ai/sdk";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CallerRequest } from "../conversion.ts";
import { unfoldReply, type Block, type Choice, type Reply, type ReplyEvent } from "../reply.ts";
import { readRequest } from "./read-request.ts";
import { writeReply } from "./write-reply.ts";
import { createStreamWriter } from "./write-stream.ts";

const asked: CallerRequest = { model: "m", wantsStreamUsage: true, inputTokens: 12 };
const usage = { inputTokens: 10n, cacheReadTokens: 20n, cacheWrite5mTokens: 3n, outputTokens: 5n, reasoningTokens: 2n };

function replyOf(blocks: Block[], ending: Partial<Choice> = {}): Reply {
  return { id: "chatcmpl-1", model: "gpt", choices: [{ blocks, reason: "stop", ...ending }], usage };
}

function stream(events: ReplyEvent[]): string {
  const writer = createStreamWriter(asked);
  return events.map((event) => writer.write(event)).join("");
}

type Data = { type: string; index?: number; content_block?: unknown; delta?: { type?: string } };

const dataOf = (text: string): Data[] => {
  const events = text.split("\n\n").slice(0, -1);
  return events.map((event) => {
    const [name, data] = event.split("\n");
    const parsed = JSON.parse(data?.replace("data: ", "") ?? "") as Data;
    assert.equal(name, `event: ${parsed.type}`);
    return parsed;
  });
};

/** What the official client makes of a stream. */
function decode(text: string): Promise<Anthropic.Message> {
  const headers = { "content-type": "text/event-stream" };
  const fetch = (): Promise<Response> => Promise.resolve(new Response(text, { headers }));
  const anthropic = new Anthropic({ apiKey: "k", baseURL: "http://relay.invalid", fetch, maxRetries: 0 });
  return anthropic.messages.stream({ model: "m", max_tokens: 1, messages: [] }).finalMessage();
}

const call: Block = { kind: "call", id: "call_1", name: "f", input: '{"a":1}' };
const idle: Block = { kind: "call", id: "call_2", name: "now", input: "" };

test("API spec, Events: Messages (Format B). message_start, content_block_start, content_block_delta, content_block_stop, message_delta, message_stop in that order", () => {
  const types = dataOf(stream(unfoldReply(replyOf([{ kind: "text", text: "Hi" }])))).map(({ type }) => type);
  assert.deepEqual(types, [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
  ]);
});

test("trap 20 (the ladder of blocks): they never overlap, each start has a stop, index counts once, no call is lost", async () => {
  const blocks: Block[] = [{ kind: "thinking", text: "hm" }, { kind: "text", text: "So" }, call, idle];
  const text = stream(unfoldReply(replyOf(blocks, { reason: "calls" })));
  const steps = dataOf(text).flatMap(({ type, index, delta }) =>
    index === undefined ? [] : [`${type.replace("content_block_", "")} ${index}${delta ? ` ${delta.type}` : ""}`],
  );
  assert.deepEqual(steps, [
    "start 0",
    "delta 0 thinking_delta",
    "delta 0 signature_delta",
    "stop 0",
    "start 1",
    "delta 1 text_delta",
    "stop 1",
    "start 2",
    "delta 2 input_json_delta",
    "delta 2 input_json_delta",
    "stop 2",
    "start 3",
    "delta 3 input_json_delta",
    "stop 3",
  ]);
  const message = await decode(text);
  assert.deepEqual(
    message.content.filter(({ type }) => type === "tool_use"),
    [
      { type: "tool_use", id: "call_1", name: "f", input: { a: 1 }, caller: { type: "direct" } },
      { type: "tool_use", id: "call_2", name: "now", input: {}, caller: { type: "direct" } },
    ],
  );
  assert.equal(message.stop_reason, "tool_use");
});

test("the official client decodes a stream to what the whole reply says", async () => {
  const citations = [{ url: "https://a.example", title: "T", text: "c" }];
  const opaque = { issuer: "openai-responses", value: "gAAAA" } as const;
  const reply = replyOf(
    [
      { kind: "thinking", text: "hm", opaque },
      { kind: "thinking", text: "", opaque },
      { kind: "text", text: 'So "ü"\n', citations },
      { ...call, opaque: { issuer: "gemini-generate", value: "c2ln" } },
    ],
    { reason: "stop-sequence", stopSequence: "END" },
  );
  const { content, stop_reason, stop_sequence } = await decode(stream(unfoldReply(reply)));
  const whole = writeReply(reply, asked);
  assert.deepEqual(
    { content, stop_reason, stop_sequence },
    {
      content: whole["content"],
      stop_reason: "stop_sequence",
      stop_sequence: "END",
    },
  );
});

test("trap 7 (input 0 in message_start breaks clients): an estimate first, the truth in message_delta", async () => {
  const text = stream(unfoldReply(replyOf([{ kind: "text", text: "Hi" }])));
  const [first] = dataOf(text) as unknown as [{ message: Anthropic.Message }];
  assert.equal(first.message.usage.input_tokens, 12);
  const writer = createStreamWriter({ model: "m", wantsStreamUsage: true });
  assert.match(writer.write({ kind: "start", id: "", model: "" }), /"input_tokens":1,/, "never 0");
  const message = await decode(text);
  assert.equal(message.usage.input_tokens, 10);
});

test("trap 1 (usage): input without cache reads and writes, output with thinking, streamed and whole", async () => {
  const reply = replyOf([{ kind: "text", text: "Hi" }]);
  const told = {
    input_tokens: 10,
    cache_creation_input_tokens: 3,
    cache_read_input_tokens: 20,
    output_tokens: 7,
    output_tokens_details: { thinking_tokens: 2 },
    server_tool_use: null,
  };
  const cacheCreation = { ephemeral_5m_input_tokens: 3, ephemeral_1h_input_tokens: 0 };
  const untold = { inference_geo: null, service_tier: null, speed: null };
  assert.deepEqual(writeReply(reply, asked)["usage"], { ...told, cache_creation: cacheCreation, ...untold });
  const message = await decode(stream(unfoldReply(reply)));
  assert.deepEqual({ ...message.usage, ...told }, message.usage);
});

test("without the provider's counts the estimate stands", async () => {
  const reply = { ...replyOf([{ kind: "text", text: "Hi" }]), usage: undefined };
  const message = await decode(stream(unfoldReply(reply)));
  assert.deepEqual([message.usage.input_tokens, message.usage.output_tokens], [12, 0]);
  const whole = writeReply(reply, asked)["usage"] as Anthropic.Usage;
  assert.deepEqual([whole.input_tokens, whole.output_tokens], [12, 0]);
});

test("trap 17 (clients discard thinking without a signature): it gets one, and comes back as nobody's", () => {
  const reply = replyOf([{ kind: "thinking", text: "hm" }]);
  const { content } = writeReply(reply, asked) as unknown as Anthropic.Message;
  const [block] = content as Anthropic.ThinkingBlock[];
  assert.ok(block?.signature);
  assert.match(stream(unfoldReply(reply)), /"type":"signature_delta","signature":"relay/);
  const { conversation } = readRequest({ messages: [{ role: "assistant", content }] });
  assert.deepEqual(conversation.turns[0]?.parts, [{ kind: "thinking", text: "hm" }]);
});

test("state of thinking, texts and calls goes out and comes back intact, whole and streamed", async () => {
  const thought = { issuer: "gemini-generate", value: "c2ln" } as const;
  const reasoning = { issuer: "openai-responses", value: "gAAAA" } as const;
  const blocks: Block[] = [
    { kind: "thinking", text: "hm", opaque: reasoning },
    { kind: "thinking", text: "", opaque: reasoning },
    { kind: "text", text: "So", opaque: thought },
    { ...call, opaque: thought },
  ];
  const reply = replyOf(blocks);
  const whole = writeReply(reply, asked) as unknown as Anthropic.Message;
  const streamed = await decode(stream(unfoldReply(reply)));
  for (const { content } of [whole, streamed]) {
    const { conversation } = readRequest({ messages: [{ role: "assistant", content }] });
    assert.deepEqual(conversation.turns[0]?.parts, blocks);
  }
});

test("trap 25: nothing is written for empty texts and empty thinking", () => {
  const blocks: Block[] = [
    { kind: "text", text: "" },
    { kind: "thinking", text: "" },
    { kind: "refusal", text: "" },
  ];
  assert.deepEqual(writeReply(replyOf(blocks), asked)["content"], []);
  assert.equal(
    dataOf(stream(unfoldReply(replyOf(blocks))))
      .map(({ type }) => type)
      .join(),
    "message_start,message_delta,message_stop",
  );
});

test("trap 26: cut arguments of a whole reply are kept whole, not repaired; free text becomes one input", async () => {
  const cut = replyOf([{ ...call, input: '{"path":"/tm' }], { reason: "length" });
  const { content } = writeReply(cut, asked) as unknown as Anthropic.Message;
  assert.deepEqual((content[0] as Anthropic.ToolUseBlock).input, { INVALID_JSON: '{"path":"/tm' });
  assert.match(stream(unfoldReply(cut)), /"partial_json":"\{\\"path\\":\\"\/tm"/);
  const free = replyOf([{ kind: "call", id: "c", name: "patch", input: 'a "b"\n\u{1f600}', isFreeText: true }]);
  const message = await decode(stream(unfoldReply(free)));
  assert.deepEqual((message.content[0] as Anthropic.ToolUseBlock).input, { input: 'a "b"\n\u{1f600}' });
  assert.deepEqual(message.content, writeReply(free, asked)["content"]);
});

test("trap 14: ids of calls are such as providers of this format take back", () => {
  const reply = replyOf([{ ...call, id: "functions.f:0" }]);
  const { content } = writeReply(reply, asked) as unknown as Anthropic.Message;
  assert.match((content[0] as Anthropic.ToolUseBlock).id, /^[A-Za-z0-9_-]{1,64}$/);
});

test("trap 12 and its like: every reason to end is one of this format", () => {
  const reasons = ["stop", "stop-sequence", "length", "calls", "refusal", "pause"] as const;
  const told = reasons.map((reason) => {
    const { stop_reason, stop_sequence } = writeReply(replyOf([], { reason, stopSequence: "END" }), asked);
    return [stop_reason, stop_sequence];
  });
  assert.deepEqual(told, [
    ["end_turn", null],
    ["stop_sequence", "END"],
    ["max_tokens", null],
    ["tool_use", null],
    ["refusal", null],
    ["pause_turn", null],
  ]);
  const refused = replyOf([{ kind: "refusal", text: "I cannot." }]);
  assert.equal(writeReply(refused, asked)["stop_reason"], "refusal");
  assert.match(stream(unfoldReply(refused)), /"stop_reason":"refusal"/);
});

test("API spec, Streaming that stops partway: Messages. No error arrives; answer ends partway", () => {
  const writer = createStreamWriter(asked);
  writer.write({ kind: "start", id: "x", model: "gpt" });
  writer.write({ kind: "block-start", choice: 0, block: { kind: "text" } });
  writer.write({ kind: "block-delta", choice: 0, text: "Hi" });
  const error = { message: "Busy", type: undefined, code: undefined };
  assert.equal(writer.write({ kind: "error", error }), "");
});

test("this format has one answer: other choices are passed over, whole and streamed", async () => {
  const reply: Reply = replyOf([{ kind: "text", text: "one" }]);
  reply.choices.push({ blocks: [{ kind: "text", text: "two" }], reason: "length" });
  const message = await decode(stream(unfoldReply(reply)));
  assert.deepEqual(message.content, [{ type: "text", text: "one", citations: null }]);
  assert.equal(message.stop_reason, "end_turn");
  assert.deepEqual(writeReply(reply, asked)["content"], message.content);
});

test("ids are in this format's style and never empty; the model is the one that was asked for", () => {
  const idOf = (id: string): unknown => writeReply({ ...replyOf([]), id }, asked)["id"];
  assert.equal(idOf("chatcmpl-1"), "msg_chatcmpl-1");
  assert.equal(idOf("msg_1"), "msg_1");
  assert.notEqual(idOf(""), idOf(""));
  assert.equal(writeReply(replyOf([]), asked)["model"], "m");
});

test("an answer ends with its text, whose state stands only where something comes behind it: agents take the last block for what was said", () => {
  const opaque = { issuer: "gemini-generate", value: "c2ln" } as const;
  const said: Block = { kind: "text", text: "Done.", opaque };
  const typesOf = (blocks: Block[]): unknown[] => {
    const started = dataOf(stream(unfoldReply(replyOf(blocks)))).filter(({ type }) => type === "content_block_start");
    const whole = writeReply(replyOf(blocks), asked)["content"] as { type: string }[];
    const types = whole.map(({ type }) => type);
    assert.deepEqual(
      started.map(({ content_block: block }) => (block as { type: string }).type),
      types,
    );
    return types;
  };
  assert.deepEqual(typesOf([said]), ["text"]);
  assert.deepEqual(typesOf([said, { kind: "text", text: "", opaque }]), ["text"]);
  assert.deepEqual(typesOf([said, call]), ["text", "redacted_thinking", "tool_use"]);
  assert.deepEqual(typesOf([{ ...call, opaque }]), ["tool_use", "redacted_thinking"]);
});
