import assert from "node:assert/strict";
import { test } from "node:test";
import fastCheck from "fast-check";
import { foldReply, unfoldReply, type Block, type Reply, type ReplyEvent } from "../reply.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("openai-chat");
const createStreamReader = () => createShownReader("openai-chat");

const chunk = (fields: object): object => ({
  id: "c",
  model: "served",
  created: 5,
  object: "chat.completion.chunk",
  ...fields,
});
const delta = (fields: object, finishReason: unknown = null, index = 0): object =>
  chunk({ choices: [{ index, delta: fields, finish_reason: finishReason }] });
const done = "[DONE]";
const usage = {
  prompt_tokens: 20,
  completion_tokens: 9,
  total_tokens: 29,
  prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 2 },
  completion_tokens_details: { reasoning_tokens: 4 },
};

function readAll(data: unknown[]): ReplyEvent[] {
  const reader = createStreamReader();
  return [...data.flatMap((one) => reader.read(one)), ...reader.end()];
}
const fold = (...data: unknown[]): Reply => foldReply(readAll([...data, done]));
const blocksOf = (...data: unknown[]): Block[] | undefined => fold(...data, delta({}, "stop")).choices[0]?.blocks;
const fragment = (index: number, fields: object, more: object = {}): object => ({
  tool_calls: [{ index, ...more, function: fields }],
});
const begin = (index: number, id: string): object =>
  fragment(index, { name: "look", arguments: "" }, { id, type: "function" });

test("trap 8 (usage can arrive in a chunk after finish_reason): the end is told at [DONE], with usage", () => {
  const events = readAll([delta({ content: "Hi" }), delta({}, "stop"), chunk({ choices: [], usage }), done]);
  assert.deepEqual(events, [
    { kind: "start", id: "c", model: "served", createdAtSeconds: 5 },
    { kind: "block-start", choice: 0, block: { kind: "text" } },
    { kind: "block-delta", choice: 0, text: "Hi" },
    { kind: "block-end", choice: 0 },
    { kind: "choice-finish", choice: 0, reason: "stop" },
    {
      kind: "finish",
      usage: {
        inputTokens: 13n,
        cacheReadTokens: 5n,
        cacheWrite5mTokens: 2n,
        audioInputTokens: 0n,
        imageInputTokens: 0n,
        outputTokens: 5n,
        reasoningTokens: 4n,
        audioOutputTokens: 0n,
      },
    },
  ]);
});

test("trap 17 (reasoning_content from chat upstreams): thinking blocks, under either name, once", () => {
  const both = { reasoning_content: "Hm.", reasoning: "Hm." };
  const blocks = [
    { kind: "thinking", text: "Hm." },
    { kind: "text", text: "Yes" },
  ];
  for (const thought of [both, { reasoning_content: "Hm." }, { reasoning: "Hm." }]) {
    assert.deepEqual(
      blocksOf(delta({ role: "assistant", content: null }), delta(thought), delta({ content: "Yes" })),
      blocks,
    );
  }
  const parts = [
    { type: "thinking", thinking: [{ type: "text", text: "Hm." }] },
    { type: "text", text: "Yes" },
  ];
  assert.deepEqual(blocksOf(delta({ content: parts })), blocks);
});

test("trap 20 (blocks never overlap, argument-less calls, every parallel call kept)", () => {
  const events = readAll([
    delta({ role: "assistant", content: "Let me." }),
    delta(begin(0, "a")),
    delta(fragment(0, { arguments: '{"x"' })),
    delta(fragment(0, { arguments: ":1}" })),
    delta(begin(1, "b")),
    delta({}, "tool_calls"),
    done,
  ]);
  let open = 0;
  for (const { kind } of events) {
    if (kind === "block-start") open += 1;
    if (kind === "block-end") open -= 1;
    assert.ok(open === 0 || open === 1);
  }
  const { choices } = foldReply(events);
  assert.deepEqual(choices, [
    {
      blocks: [
        { kind: "text", text: "Let me." },
        { kind: "call", id: "a", name: "look", input: '{"x":1}' },
        { kind: "call", id: "b", name: "look", input: "" },
      ],
      reason: "calls",
    },
  ]);
});

test("calls of compatible servers: one index for all, none at all, the id again, an object, no id", () => {
  const call = (fields: object): object => ({
    type: "function",
    function: { name: "look", arguments: "{}" },
    ...fields,
  });
  const idsOf = (...data: object[]): unknown => blocksOf(...data)?.map((block) => block.kind === "call" && block.id);
  assert.deepEqual(idsOf(delta({ tool_calls: [call({ index: 0, id: "a" }), call({ index: 0, id: "b" })] })), [
    "a",
    "b",
  ]);
  assert.deepEqual(idsOf(delta({ tool_calls: [call({ id: "a" })] }), delta({ tool_calls: [call({ id: "b" })] })), [
    "a",
    "b",
  ]);
  const again = [delta(begin(0, "a")), delta(fragment(0, { name: "look", arguments: "{}" }, { id: "a" }))];
  assert.deepEqual(blocksOf(...again), [{ kind: "call", id: "a", name: "look", input: "{}" }]);
  const parsed = { tool_calls: [{ id: "a", function: { name: "look", arguments: { x: 1 } } }] };
  assert.deepEqual(blocksOf(delta(parsed)), [{ kind: "call", id: "a", name: "look", input: '{"x":1}' }]);
  const made = idsOf(delta({ tool_calls: [call({ index: 0 })] }), delta({ tool_calls: [call({ index: 1 })] }));
  assert.ok(
    Array.isArray(made) && new Set(made).size === 2 && made.every((id) => /^call_[0-9a-f]{32}$/.test(String(id))),
  );
});

test("fragments of a call that has ended fail the answer: its arguments would silently be wrong", () => {
  const events = readAll([
    delta(begin(0, "a")),
    delta(fragment(0, { arguments: "{}" })),
    delta(begin(1, "b")),
    delta(fragment(0, { arguments: "{}" })),
    delta({}, "tool_calls"),
    done,
  ]);
  assert.equal(events.at(-1)?.kind, "error");
  assert.equal(events.filter(({ kind }) => kind === "error" || kind === "finish").length, 1);
});

test("custom calls are free text, and the deprecated function_call is a call", () => {
  const custom = { tool_calls: [{ index: 0, id: "a", type: "custom", custom: { name: "sh", input: "" } }] };
  const more = { tool_calls: [{ index: 0, custom: { input: "ls" } }] };
  assert.deepEqual(blocksOf(delta(custom), delta(more)), [
    { kind: "call", id: "a", name: "sh", input: "ls", isFreeText: true },
  ]);
  const old = fold(
    delta({ function_call: { name: "look", arguments: "" } }),
    delta({ function_call: { arguments: "{}" } }),
    delta({}, "function_call"),
  );
  const [choice] = old.choices;
  assert.equal(choice?.reason, "calls");
  assert.deepEqual(
    choice.blocks.map((block) => block.kind === "call" && [block.name, block.input]),
    [["look", "{}"]],
  );
});

const reasons: [string, object, string][] = [
  ["stop", { content: "x" }, "stop"],
  ["stop", { refusal: "No." }, "refusal"],
  ["stop", begin(0, "a"), "calls"],
  ["tool_calls", begin(0, "a"), "calls"],
  ["tool_calls", { content: "x" }, "stop"],
  ["length", { content: "x" }, "length"],
  ["content_filter", {}, "refusal"],
  ["sensitive", {}, "refusal"],
  ["model_length", {}, "length"],
  ["max_tokens", {}, "length"],
  ["eos", { content: "x" }, "stop"],
];

for (const [name, content, reason] of reasons) {
  test(`finish_reason ${name} after ${Object.keys(content)[0] ?? "nothing"} is ${reason}`, () => {
    assert.equal(fold(delta(content), delta({}, name)).choices[0]?.reason, reason);
  });
}

test("several choices interleave; each has its own blocks and its own reason", () => {
  const { choices } = fold(
    delta({ content: "a" }),
    delta({ content: "x" }, null, 1),
    delta({ content: "b" }),
    delta({}, "stop"),
    delta({ content: "y" }, null, 1),
    delta({}, "length", 1),
  );
  assert.deepEqual(choices, [
    { blocks: [{ kind: "text", text: "ab" }], reason: "stop" },
    { blocks: [{ kind: "text", text: "xy" }], reason: "length" },
  ]);
});

test("annotations become citations, their places counted from the block's own text", () => {
  const url_citation = { url: "https://a.example", title: "A", start_index: 5, end_index: 6 };
  const annotations = [{ type: "url_citation", url_citation }];
  const blocks = blocksOf(
    delta({ content: "abcd" }),
    delta({ reasoning_content: "hm" }),
    delta({ content: "efg" }),
    delta({ annotations }),
  );
  assert.deepEqual(blocks?.at(-1), {
    kind: "text",
    text: "efg",
    citations: [{ url: "https://a.example", title: "A", start: 1, end: 2 }],
  });
});

test("trap 13 (thought signatures): read from the call, from the text and from the message", () => {
  const extra = { extra_content: { google: { thought_signature: "sig" } } };
  const opaque = { issuer: "gemini-generate", value: "sig" };
  const call = { index: 0, id: "a", function: { name: "look", arguments: "{}" } };
  assert.deepEqual(blocksOf(delta({ tool_calls: [{ ...call, ...extra }] }))?.at(0), {
    kind: "call",
    id: "a",
    name: "look",
    input: "{}",
    opaque,
  });
  const two = blocksOf(delta({ tool_calls: [call, { ...call, index: 1, id: "b" }], ...extra }));
  assert.deepEqual(
    two?.map((block) => "opaque" in block),
    [true, false],
  );
  const text = blocksOf(delta({ content: "x" }), delta({ content: "", ...extra }));
  assert.deepEqual(text, [{ kind: "text", text: "x", opaque }]);
});

const tokenOf = (token: string): object => ({
  token,
  logprob: -0.5,
  bytes: [...Buffer.from(token)],
  top_logprobs: [{ token: "No", logprob: -2, bytes: null }],
});
const readToken = (token: string): object => ({
  token,
  logprob: -0.5,
  bytes: [...Buffer.from(token)],
  alternatives: [{ token: "No", logprob: -2 }],
});
const told = (fields: object, ...tokens: string[]): object =>
  chunk({
    choices: [
      { index: 0, delta: fields, logprobs: { content: tokens.map(tokenOf), refusal: null }, finish_reason: null },
    ],
  });

test("logprobs go with the text that they came with, also those of a part of a character, without text", () => {
  const events = readAll([told({ content: "Yes" }, "Y", "es"), told({ content: "" }, "!"), delta({}, "stop"), done]);
  assert.deepEqual(
    events.filter(({ kind }) => kind === "block-delta"),
    [
      { kind: "block-delta", choice: 0, text: "Yes", logprobs: [readToken("Y"), readToken("es")] },
      { kind: "block-delta", choice: 0, text: "", logprobs: [readToken("!")] },
    ],
  );
  const folded = foldReply(events).choices[0]?.blocks;
  assert.deepEqual(folded, [{ kind: "text", text: "Yes", logprobs: ["Y", "es", "!"].map(readToken) }]);
  const logprobs = { content: ["Y", "es", "!"].map(tokenOf), refusal: null };
  const whole = readReply({ choices: [{ index: 0, message: { content: "Yes" }, logprobs, finish_reason: "stop" }] });
  assert.deepEqual(whole?.choices[0]?.blocks, folded);
});

test("logprobs of anything but text are not the text's, and empty ones are none", () => {
  const blocks = blocksOf(
    told({ role: "assistant", content: "" }),
    told({ reasoning_content: "Hm" }, "Hm"),
    told({ content: "Yes" }),
    told(begin(0, "a"), "look"),
  );
  assert.equal(JSON.stringify(blocks).includes("logprobs"), false);
  assert.deepEqual(
    blocks?.map(({ kind }) => kind),
    ["thinking", "text", "call"],
  );
});

test("Azure's first chunk without a name is no start", () => {
  const opening = { choices: [], created: 0, id: "", model: "", object: "", prompt_filter_results: [] };
  const reply = fold(opening, delta({ content: "x" }), delta({}, "stop"));
  assert.deepEqual([reply.id, reply.model, reply.createdAtSeconds], ["c", "served", 5]);
});

test("trap 22 (upstream failure after 200): an error is the last event, in the provider's words", () => {
  const error = { message: "overloaded", type: "server_error", param: null, code: 503 };
  const events = readAll([delta({ content: "half" }), { error }, delta({ content: "more" }), done]);
  assert.deepEqual(events.at(-1), {
    kind: "error",
    error: { message: "overloaded", type: "server_error", code: "503" },
  });
});

test("a stream without a finish_reason is not whole, with [DONE] or without; one with it is", () => {
  for (const data of [[], [done], [delta({ content: "x" })], [delta({ content: "x" }), done]]) {
    const ends = readAll(data).filter(({ kind }) => kind === "error" || kind === "finish");
    assert.deepEqual(
      ends.map(({ kind }) => kind),
      ["error"],
    );
  }
  const half = [delta({ content: "a" }), delta({ content: "x" }, null, 1), delta({}, "stop"), done];
  assert.equal(readAll(half).at(-1)?.kind, "error", "one of two choices has not ended");
  assert.equal(readAll([delta({ content: "x" }, "stop")]).at(-1)?.kind, "finish", "a server without [DONE]");
});

test("a whole answer reads like its stream", () => {
  const message = {
    role: "assistant",
    content: "Yes",
    reasoning_content: "Hm.",
    refusal: null,
    annotations: [],
    tool_calls: [
      { id: "a", type: "function", function: { name: "look", arguments: "{}" } },
      { id: "b", type: "custom", custom: { name: "sh", input: "ls" } },
    ],
  };
  const choices = [{ index: 0, message, logprobs: null, finish_reason: "tool_calls" }];
  const reply = readReply({ id: "c", object: "chat.completion", created: 5, model: "served", choices, usage });
  assert.deepEqual(reply?.choices, [
    {
      blocks: [
        { kind: "thinking", text: "Hm." },
        { kind: "text", text: "Yes" },
        { kind: "call", id: "a", name: "look", input: "{}" },
        { kind: "call", id: "b", name: "sh", input: "ls", isFreeText: true },
      ],
      reason: "calls",
    },
  ]);
  assert.equal(reply.usage?.inputTokens, 13n);
  assert.equal(reply.createdAtSeconds, 5);
  for (const body of [undefined, null, "x", {}, { choices: 7 }, { choices: [] }, { error: {}, choices: [{}] }]) {
    assert.equal(readReply(body), undefined);
  }
});

test("any data is read without raising anything, and ends exactly once", () => {
  const anything = fastCheck.anything({ maxDepth: 3 });
  const call = fastCheck.record(
    {
      index: fastCheck.oneof(fastCheck.nat(2), anything),
      id: fastCheck.oneof(fastCheck.constantFrom("a", "b", ""), anything),
      function: fastCheck.oneof(fastCheck.record({ name: anything, arguments: anything }), anything),
      custom: anything,
      type: anything,
      extra_content: anything,
    },
    { requiredKeys: [] },
  );
  const message = fastCheck.record(
    {
      content: fastCheck.oneof(fastCheck.string(), anything),
      tool_calls: fastCheck.oneof(fastCheck.array(call), anything),
      reasoning: anything,
      refusal: anything,
      annotations: anything,
      function_call: anything,
      extra_content: anything,
    },
    { requiredKeys: [] },
  );
  const choice = fastCheck.record({
    index: fastCheck.oneof(fastCheck.nat(2), anything),
    delta: fastCheck.oneof(message, anything),
    message,
    logprobs: fastCheck.oneof(fastCheck.record({ content: fastCheck.array(anything) }), anything),
    finish_reason: fastCheck.oneof(fastCheck.constantFrom("stop", null, "length"), anything),
  });
  const data = fastCheck.oneof(
    fastCheck.record({ choices: fastCheck.oneof(fastCheck.array(choice), anything), usage: anything }),
    anything,
  );
  fastCheck.assert(
    fastCheck.property(fastCheck.array(data), (list) => {
      const events = readAll([...list, done]);
      const ends = events.filter(({ kind }) => kind === "error" || kind === "finish");
      assert.equal(ends.length, 1);
      assert.equal(events.at(-1), ends[0]);
      for (const one of list) {
        const reply = readReply(one);
        if (reply) assert.deepEqual(foldReply(unfoldReply(reply)), reply);
      }
    }),
    { numRuns: 1000 },
  );
});

for (const reason of ["error", "insufficient_system_resource", "network_error", "abort"]) {
  test(`an answer that its server broke off (${reason}) is shown as broken, not as one that has ended`, () => {
    const events = readAll([delta({ content: "Hi" }), delta({}, reason), chunk({ choices: [], usage }), done]);
    assert.ok(!events.some(({ kind }) => kind === "finish" || kind === "choice-finish"));
    assert.equal(readReply({ id: "c", choices: [{ message: { content: "Hi" }, finish_reason: reason }] }), undefined);
  });
}
