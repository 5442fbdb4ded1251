import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import fastCheck from "fast-check";
import type { Part } from "../conversation.ts";
import { member } from "../dialect.ts";
import { foldReply, unfoldReply, type Block, type FinishReason, type Reply, type ReplyEvent } from "../reply.ts";
import { readRequest } from "./read-request.ts";
import { writeReply } from "./write-reply.ts";
import { createStreamWriter } from "./write-stream.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("openai-chat");
const createStreamReader = () => createShownReader("openai-chat");

const asked = { model: "m", wantsStreamUsage: true };
const replyOf = (blocks: Block[], reason: FinishReason = "stop"): Reply => ({
  id: "msg_1",
  model: "served",
  createdAtSeconds: 5,
  choices: [{ blocks, reason }],
  usage: undefined,
});
const frame = { id: "chatcmpl-msg_1", created: 5, model: "m", service_tier: null, system_fingerprint: null };

/** Data of the events that are written, `[DONE]` as text. */
function dataOf(events: ReplyEvent[], wantsStreamUsage = true): unknown[] {
  const writer = createStreamWriter({ model: "m", wantsStreamUsage });
  const text = events.map((event) => writer.write(event)).join("");
  assert.ok(text === "" || text.endsWith("\n\n"));
  const data = text.split("\n\n").slice(0, -1);
  return data.map((line) => (line === "data: [DONE]" ? "[DONE]" : JSON.parse(line.slice("data: ".length))));
}
const deltasOf = (blocks: Block[]): unknown[] =>
  dataOf(unfoldReply(replyOf(blocks)))
    .slice(0, -3)
    .map((chunk) => member((member(chunk, "choices") as unknown[])[0], "delta"));
const messageOf = (blocks: Block[]): unknown =>
  member((writeReply(replyOf(blocks), asked)["choices"] as unknown[])[0], "message");

const zeros = {
  prompt_tokens: 0,
  completion_tokens: 0,
  total_tokens: 0,
  prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: 0,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
};

test("a whole answer has every field that a real one has", () => {
  const message = { role: "assistant", content: "Hi", refusal: null, annotations: [] };
  assert.deepEqual(writeReply(replyOf([{ kind: "text", text: "Hi" }]), asked), {
    ...frame,
    object: "chat.completion",
    choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
    usage: zeros,
  });
});

test("a stream: the role first, one frame, usage null until its own chunk, then [DONE]", () => {
  const one = (delta: object, reason: string | null = null): object => ({
    ...frame,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
    usage: null,
  });
  const events = unfoldReply(replyOf([{ kind: "text", text: "Hi" }]));
  assert.deepEqual(dataOf(events), [
    one({ role: "assistant", content: "", refusal: null }),
    one({ content: "Hi" }),
    one({}, "stop"),
    { ...frame, object: "chat.completion.chunk", choices: [], usage: zeros },
    "[DONE]",
  ]);
});

test("logprobs: beside the text's chunk, and of all texts together beside a whole message", () => {
  const token = { token: "Hi", logprob: -0.5, bytes: [72, 105], alternatives: [{ token: "Yo", logprob: -2 }] };
  const written = { ...token, top_logprobs: [{ token: "Yo", logprob: -2, bytes: null }], alternatives: undefined };
  const logprobs = JSON.parse(JSON.stringify({ content: [written], refusal: null })) as { content: object[] };
  const text: Block = { kind: "text", text: "Hi", logprobs: [token] };
  const [, chunk] = dataOf(unfoldReply(replyOf([text])));
  const chosen = { index: 0, delta: { content: "Hi" }, logprobs, finish_reason: null };
  assert.deepEqual(chunk, { ...frame, object: "chat.completion.chunk", choices: [chosen], usage: null });
  const [choice] = writeReply(replyOf([text, text]), asked)["choices"] as unknown[];
  assert.deepEqual(member(choice, "logprobs"), { content: [...logprobs.content, ...logprobs.content], refusal: null });
});

test("trap 9 (strip the extra chunk when the client did not ask): no usage in any chunk", () => {
  const data = dataOf(unfoldReply(replyOf([{ kind: "text", text: "Hi" }])), false);
  assert.equal(data.length, 4);
  assert.ok(!JSON.stringify(data).includes("usage"));
});

test("calls: the role without content, a start without arguments, fragments; one after the other by index", () => {
  const blocks: Block[] = [
    { kind: "call", id: "a", name: "look", input: '{"x":1}' },
    { kind: "call", id: "b", name: "sh", input: "ls", isFreeText: true },
  ];
  assert.deepEqual(deltasOf(blocks), [
    { role: "assistant", content: null, refusal: null },
    { tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "look", arguments: "" } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"x":1}' } }] },
    { tool_calls: [{ index: 1, id: "b", type: "custom", custom: { name: "sh", input: "" } }] },
    { tool_calls: [{ index: 1, custom: { input: "ls" } }] },
  ]);
  assert.deepEqual(messageOf(blocks), {
    role: "assistant",
    content: null,
    refusal: null,
    annotations: [],
    tool_calls: [
      { id: "a", type: "function", function: { name: "look", arguments: '{"x":1}' } },
      { id: "b", type: "custom", custom: { name: "sh", input: "ls" } },
    ],
  });
});

test("who declared the deprecated functions gets function_call, whole and streamed", () => {
  const old = { ...asked, request: { functions: [{ name: "look" }] } };
  const events = unfoldReply(replyOf([{ kind: "call", id: "a", name: "look", input: '{"x":1}' }], "calls"));
  const [choice] = writeReply(foldReply(events), old)["choices"] as unknown[];
  assert.deepEqual(choice, {
    index: 0,
    message: {
      role: "assistant",
      content: null,
      refusal: null,
      annotations: [],
      function_call: { name: "look", arguments: '{"x":1}' },
    },
    logprobs: null,
    finish_reason: "function_call",
  });
  const writer = createStreamWriter(old);
  const text = events.map((event) => writer.write(event)).join("");
  assert.match(text, /"delta":\{"function_call":\{"name":"look","arguments":""\}\}/);
  assert.match(text, /"delta":\{"function_call":\{"arguments":"\{\\"x\\":1\}"\}\}/);
  assert.match(text, /"delta":\{\},"logprobs":null,"finish_reason":"function_call"/);
});

test("trap 26 (empty tool arguments mean an empty object): clients that parse them get one", () => {
  const blocks: Block[] = [{ kind: "call", id: "a", name: "look", input: "" }];
  assert.deepEqual(deltasOf(blocks).at(-1), { tool_calls: [{ index: 0, function: { arguments: "{}" } }] });
  assert.ok(JSON.stringify(messageOf(blocks)).includes('"arguments":"{}"'));
});

const opaque = { issuer: "anthropic-messages", value: "sig" } as const;

test("thinking is reasoning_content, and its state stands in extra_content with the place of its block", () => {
  const blocks: Block[] = [
    { kind: "thinking", text: "Hm.", opaque },
    { kind: "text", text: "Yes" },
    { kind: "thinking", text: "", opaque },
  ];
  const state = "relay.1.anthropic-messages.sig";
  const first = { index: 0, start: 0, length: 3, content: 0, calls: 0, state };
  const second = { index: 1, start: 3, length: 0, content: 3, calls: 0, state };
  assert.deepEqual(deltasOf(blocks).slice(1), [
    { reasoning_content: "Hm." },
    { content: "Yes" },
    { extra_content: { relay: { thinking: [first, second] } } },
  ]);
  assert.deepEqual(messageOf(blocks), {
    role: "assistant",
    content: "Yes",
    reasoning_content: "Hm.",
    refusal: null,
    annotations: [],
    extra_content: { relay: { thinking: [first, second] } },
  });
});

test("trap 13 (thought signatures): on the call and on the message, as Google's own chat endpoint has them", () => {
  const signed = { issuer: "gemini-generate", value: "sig" } as const;
  const extra = { extra_content: { google: { thought_signature: "sig" } } };
  const call: Block = { kind: "call", id: "a", name: "look", input: "{}", opaque: signed };
  assert.deepEqual(deltasOf([call]).at(-1), {
    tool_calls: [{ index: 0, function: { arguments: "" }, ...extra }],
  });
  assert.deepEqual(deltasOf([{ kind: "text", text: "x", opaque: signed }]).at(-1), extra);
  assert.ok(JSON.stringify(messageOf([call])).includes('"extra_content":{"google":{"thought_signature":"sig"}}'));
});

test("trap 34 (several text parts with citations have no chat equivalent): places move into one content", () => {
  const web = { url: "https://a.example", title: "A", start: 0, end: 2 };
  const page = { title: "Report", text: "as cited" };
  const blocks: Block[] = [
    { kind: "text", text: "abc", citations: [web] },
    { kind: "text", text: "def", citations: [web, page] },
  ];
  const annotation = (start_index: number, end_index: number): object => ({
    type: "url_citation",
    url_citation: { start_index, end_index, title: "A", url: "https://a.example" },
  });
  const document = { index: 0, start_index: 3, end_index: 6, ...page };
  assert.deepEqual(messageOf(blocks), {
    role: "assistant",
    content: "abcdef",
    refusal: null,
    annotations: [annotation(0, 2), annotation(3, 5)],
    extra_content: { relay: { citations: [document] } },
  });
  assert.deepEqual(deltasOf(blocks).at(-1), {
    annotations: [
      { index: 0, ...annotation(0, 2) },
      { index: 1, ...annotation(3, 5) },
    ],
    extra_content: { relay: { citations: [document] } },
  });
});

test("the official client adds a stream up to the whole answer, with all citations and states", async () => {
  const cited = [{ url: "https://a.example" }, { url: "https://b.example" }, { title: "Report" }];
  const signed = { issuer: "gemini-generate", value: "sig" } as const;
  const answers: Block[][] = [
    [
      { kind: "thinking", text: "Hm.", opaque },
      { kind: "text", text: "Yes", citations: cited, opaque: signed },
    ],
    [
      { kind: "thinking", text: "Hm.", opaque },
      { kind: "call", id: "a", name: "look", input: "", opaque },
    ],
  ];
  for (const blocks of answers) {
    const writer = createStreamWriter(asked);
    const stream = unfoldReply(replyOf(blocks)).map((event) => writer.write(event));
    const headers = { "content-type": "text/event-stream" };
    const fetch = () => Promise.resolve(new Response(stream.join(""), { headers }));
    const client = new OpenAI({ apiKey: "k", fetch });
    const added = await client.chat.completions.stream({ model: "m", messages: [] }).finalChatCompletion();
    const { annotations, content, ...message } = added.choices[0]?.message ?? {};
    const whole = messageOf(blocks) as { annotations: object[]; content: unknown; extra_content: unknown };
    assert.equal(content, whole.content);
    assert.deepEqual(
      annotations ?? [],
      whole.annotations.map((annotation, index) => ({ index, ...annotation })),
    );
    assert.deepEqual(member(message, "extra_content"), whole.extra_content);
  }
});

test("what stands beside the content of a stream is held back up to a limit", () => {
  const citations = Array.from({ length: 1_001 }, (_, at) => ({ url: `https://a.example/${at}` }));
  const told = deltasOf([{ kind: "text", text: "x", citations }]).flatMap((delta) => {
    const annotations = member(delta, "annotations");
    return Array.isArray(annotations) ? [annotations.length] : [];
  });
  assert.deepEqual(told, [1_000, 1]);
});

const finishes: [FinishReason, Block, string][] = [
  ["stop", { kind: "text", text: "x" }, "stop"],
  ["stop-sequence", { kind: "text", text: "x" }, "stop"],
  ["pause", { kind: "text", text: "x" }, "stop"],
  ["length", { kind: "text", text: "x" }, "length"],
  ["calls", { kind: "call", id: "a", name: "b", input: "" }, "tool_calls"],
  ["refusal", { kind: "text", text: "x" }, "content_filter"],
  ["refusal", { kind: "refusal", text: "No." }, "stop"],
];

for (const [reason, block, name] of finishes) {
  test(`an answer of ${block.kind} that ended for ${reason} has the finish_reason ${name}, whole and streamed`, () => {
    const [choice] = writeReply(replyOf([block], reason), asked)["choices"] as unknown[];
    assert.equal(member(choice, "finish_reason"), name);
    const last = member(dataOf(unfoldReply(replyOf([block], reason))).at(-3), "choices") as unknown[];
    assert.equal(member(last[0], "finish_reason"), name);
  });
}

test("trap 1 (input_tokens excludes cache reads and writes, prompt_tokens includes them): added exactly once", () => {
  const usage = {
    inputTokens: 10n,
    cacheReadTokens: 5n,
    cacheWrite5mTokens: 2n,
    cacheWrite1hTokens: 1n,
    audioInputTokens: 3n,
    outputTokens: 4n,
    reasoningTokens: 6n,
    audioOutputTokens: 2n,
  };
  assert.deepEqual(writeReply({ ...replyOf([]), usage }, asked)["usage"], {
    prompt_tokens: 21,
    completion_tokens: 12,
    total_tokens: 33,
    prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 3, audio_tokens: 3 },
    completion_tokens_details: {
      reasoning_tokens: 6,
      audio_tokens: 2,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  });
});

test("API spec, Streaming that stops partway: Chat completions. Data containing `error` arrives, and no [DONE]", () => {
  const error = { message: "overloaded", type: undefined, code: "service_unavailable" };
  assert.deepEqual(dataOf([{ kind: "error", error }]), [
    { error: { message: "overloaded", type: "api_error", param: "", code: "service_unavailable" } },
  ]);
});

test("an answer without anything is empty text, whole and streamed", () => {
  assert.deepEqual(messageOf([]), { role: "assistant", content: "", refusal: null, annotations: [] });
  assert.deepEqual(deltasOf([]), [{ role: "assistant", content: "", refusal: null }]);
});

test("an answer without a time is dated now", () => {
  const { createdAtSeconds: _, ...undated } = replyOf([]);
  const { created } = writeReply(undated, asked);
  assert.ok(typeof created === "number" && Math.abs(created - Date.now() / 1000) < 60);
});

// What chat can hold of a message: texts and thinking that do not touch their like, and calls behind them.
const words = fastCheck.string({ minLength: 1 });
const callBlock = fastCheck
  .tuple(fastCheck.stringMatching(/^[\w-]{1,40}$/), words, fastCheck.json(), fastCheck.boolean())
  .map(([id, name, input, isSigned]): Block => {
    const signature = isSigned ? { opaque: { issuer: "gemini-generate", value: "s" } as const } : {};
    return { kind: "call", id, name, input, ...signature };
  });
const calls = fastCheck.uniqueArray(callBlock, {
  selector: (block) => block.kind === "call" && block.id,
  maxLength: 3,
});
const likelihood = {
  token: fastCheck.string(),
  logprob: fastCheck.double({ max: -0.001, noNaN: true, noDefaultInfinity: true }),
};
const plainRecord = { noNullPrototype: true };
const likelihoods = fastCheck.oneof(
  fastCheck.record(likelihood, plainRecord),
  fastCheck.record({ ...likelihood, bytes: fastCheck.array(fastCheck.nat(255), { minLength: 1 }) }, plainRecord),
);
const logprobs = fastCheck.array(
  fastCheck
    .tuple(likelihoods, fastCheck.array(likelihoods, { maxLength: 2 }))
    .map(([token, alternatives]) => ({ ...token, alternatives })),
  { minLength: 1, maxLength: 3 },
);
const said = fastCheck
  .tuple(fastCheck.option(words), fastCheck.option(words), calls, fastCheck.option(logprobs))
  .map(([thought, text, called, tokens]) => [
    ...(thought === null ? [] : [{ kind: "thinking", text: thought } as const]),
    ...(text === null ? [] : [{ kind: "text", text, ...(tokens && { logprobs: tokens }) } as const]),
    ...called,
  ]);
const choice = said.map((blocks): Reply["choices"][number] => ({
  blocks,
  reason: blocks.some(({ kind }) => kind === "call") ? "calls" : "stop",
}));
const units = fastCheck.nat(1_000_000).map(BigInt);
const usages = fastCheck.record(
  {
    inputTokens: units,
    cacheReadTokens: units,
    cacheWrite5mTokens: units,
    audioInputTokens: units,
    imageInputTokens: units,
    outputTokens: units,
    reasoningTokens: units,
    audioOutputTokens: units,
  },
  { noNullPrototype: true },
);

test("the stream's own reader gives back the events, and folding the stream is the whole answer", () => {
  const choices = fastCheck.array(choice, { minLength: 1, maxLength: 3 });
  fastCheck.assert(
    fastCheck.property(choices, usages, (made, usage) => {
      const reply: Reply = { id: "chatcmpl-1", model: "m", createdAtSeconds: 5, choices: made, usage };
      const reader = createStreamReader();
      const events = dataOf(unfoldReply(reply)).flatMap((data) => reader.read(data));
      assert.deepEqual([...events, ...reader.end()].map(({ kind }) => kind).at(-1), "finish");
      assert.deepEqual(foldReply(events), reply);
      assert.deepEqual(readReply(JSON.parse(JSON.stringify(writeReply(reply, asked)))), reply);
    }),
  );
});

test("an answer that the caller sends back reads as it was, its thinking and state in their places", () => {
  const thought = fastCheck.tuple(fastCheck.string(), words).map(([text, value]): Block => {
    return { kind: "thinking", text, opaque: { issuer: "openai-responses", value } };
  });
  const block = fastCheck.oneof(
    thought,
    words.map((text): Block => ({ kind: "text", text })),
  );
  // Text behind text, or behind a call, is no separate part any more.
  const parted = fastCheck
    .array(block)
    .map((blocks) => blocks.filter((one, at) => one.kind !== blocks[at - 1]?.kind || one.kind === "thinking"));
  fastCheck.assert(
    fastCheck.property(parted, calls, (blocks, called) => {
      const all = [...blocks, ...called];
      const sentBack = JSON.parse(JSON.stringify(messageOf(all))) as object;
      const { conversation, dropped } = readRequest({ messages: [sentBack] });
      assert.deepEqual([...dropped], []);
      assert.deepEqual(conversation.turns[0]?.parts ?? [], all as Part[]);
    }),
  );
});
