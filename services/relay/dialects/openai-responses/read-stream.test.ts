import assert from "node:assert/strict";
import { test } from "node:test";
import { foldReply, unfoldReply, type Block, type Reply, type ReplyEvent } from "../reply.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("openai-responses");
const createStreamReader = () => createShownReader("openai-responses");

type Fields = Record<string, unknown>;
const head = { id: "resp_1", model: "gpt", created_at: 7 };
const usage = { input_tokens: 10, input_tokens_details: { cached_tokens: 4 }, output_tokens: 3 };
const created = { type: "response.created", response: { ...head, status: "in_progress", output: [] } };
const finalOf = (type: string, output: unknown[] = [], more: Fields = {}): Fields => ({
  type: `response.${type}`,
  response: { ...head, status: type, output, usage, ...more },
});
const completed = finalOf("completed");

function read(events: unknown[]): ReplyEvent[] {
  const reader = createStreamReader();
  return [...events.flatMap((event) => reader.read(event)), ...reader.end()];
}
const fold = (events: unknown[]): Reply => foldReply(read(events));
const blocksOf = (events: unknown[]): Block[] | undefined => fold([created, ...events, completed]).choices[0]?.blocks;

test("a time in parts of a second is told in whole ones, as other formats have it", () => {
  const at = { ...created, response: { ...created.response, created_at: 7.93 } };
  assert.equal(fold([at, completed]).createdAtSeconds, 7);
});

const message = (...texts: string[]): Fields => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  content: texts.map((text) => ({ type: "output_text", text, annotations: [] })),
});
const call = { type: "function_call", id: "fc_1", call_id: "c1", name: "look", arguments: '{"a":1}' };
const added = (item: Fields, output_index = 0): Fields => ({ type: "response.output_item.added", output_index, item });
const done = (item: Fields, output_index = 0): Fields => ({ type: "response.output_item.done", output_index, item });
const part = { type: "output_text", text: "", annotations: [] };
const partAdded = (content_index = 0, output_index = 0): Fields => ({
  type: "response.content_part.added",
  output_index,
  content_index,
  part,
});
const textDelta = (delta: string, output_index = 0, content_index = 0): Fields => ({
  type: "response.output_text.delta",
  output_index,
  content_index,
  delta,
});
const callDelta = (delta: string, output_index = 0): Fields => ({
  type: "response.function_call_arguments.delta",
  output_index,
  delta,
});
const callAdded = (item: Fields, output_index = 0): Fields => added({ ...item, arguments: "" }, output_index);

test("a text: its words as they come, then why and with what counts it ended", () => {
  const events = read([
    created,
    { type: "response.in_progress", response: head },
    added(message()),
    partAdded(),
    textDelta("Hel"),
    textDelta("lo"),
    { type: "response.output_text.done", output_index: 0, content_index: 0, text: "Hello" },
    { type: "response.content_part.done", output_index: 0, content_index: 0, part: { ...part, text: "Hello" } },
    done(message("Hello")),
    completed,
  ]);
  assert.deepEqual(events, [
    { kind: "start", id: "resp_1", model: "gpt", createdAtSeconds: 7 },
    { kind: "block-start", choice: 0, block: { kind: "text" } },
    { kind: "block-delta", choice: 0, text: "Hel" },
    { kind: "block-delta", choice: 0, text: "lo" },
    { kind: "block-end", choice: 0 },
    { kind: "choice-finish", choice: 0, reason: "stop" },
    {
      kind: "finish",
      usage: { inputTokens: 6n, cacheReadTokens: 4n, cacheWrite5mTokens: 0n, outputTokens: 3n, reasoningTokens: 0n },
    },
  ]);
});

const refusal = { type: "message", content: [{ type: "refusal", refusal: "No." }] };
const reasoning = {
  type: "reasoning",
  summary: [
    { type: "summary_text", text: "One." },
    { type: "summary_text", text: "Two." },
  ],
  encrypted_content: "gAAA",
};
const summaryDelta = (delta: string, summary_index: number): Fields => ({
  type: "response.reasoning_summary_text.delta",
  output_index: 0,
  summary_index,
  delta,
});

const streamRows: [string, unknown[], Block[]][] = [
  [
    "a call",
    [callAdded(call), callDelta('{"a"'), callDelta(":1}"), done(call)],
    [{ kind: "call", id: "c1", name: "look", input: '{"a":1}' }],
  ],
  [
    "trap 20: a call without arguments",
    [callAdded(call), done({ ...call, arguments: "" })],
    [{ kind: "call", id: "c1", name: "look", input: "" }],
  ],
  [
    "a call whose input is free text",
    [
      added({ type: "custom_tool_call", call_id: "c1", name: "shell", input: "" }),
      { type: "response.custom_tool_call_input.delta", output_index: 0, delta: "ls" },
      done({ type: "custom_tool_call", call_id: "c1", name: "shell", input: "ls" }),
    ],
    [{ kind: "call", id: "c1", name: "shell", input: "ls", isFreeText: true }],
  ],
  [
    "a call without deltas",
    [callAdded(call), done(call)],
    [{ kind: "call", id: "c1", name: "look", input: '{"a":1}' }],
  ],
  ["a text without deltas", [added(message()), done(message("Hello"))], [{ kind: "text", text: "Hello" }]],
  ["an item that was never added", [done(message("Hello"))], [{ kind: "text", text: "Hello" }]],
  [
    "deltas without parts",
    [textDelta("Hel"), textDelta("lo"), done(message("Hello"))],
    [{ kind: "text", text: "Hello" }],
  ],
  [
    "several parts, one of which had no deltas",
    [added(message()), textDelta("A"), textDelta("C", 0, 2), done(message("A", "B", "C", "D"))],
    [
      { kind: "text", text: "A" },
      { kind: "text", text: "C" },
      { kind: "text", text: "D" },
    ],
  ],
  [
    "a refusal",
    [{ type: "response.refusal.delta", output_index: 0, content_index: 0, delta: "No." }, done(refusal)],
    [{ kind: "refusal", text: "No." }],
  ],
  [
    "a summary in two parts, with its state",
    [
      added({ ...reasoning, summary: [] }),
      summaryDelta("On", 0),
      summaryDelta("e.", 0),
      summaryDelta("Two.", 1),
      done(reasoning),
    ],
    [{ kind: "thinking", text: "One.\n\nTwo.", opaque: { issuer: "openai-responses", value: "gAAA" } }],
  ],
  [
    "thoughts that a model shows",
    [
      { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "Hm." },
      summaryDelta("Short.", 0),
      done({ type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] }),
    ],
    [{ kind: "thinking", text: "Hm." }],
  ],
  [
    "hidden reasoning with state",
    [added({ ...reasoning, summary: [] }), done({ ...reasoning, summary: [] })],
    [{ kind: "thinking", text: "", opaque: { issuer: "openai-responses", value: "gAAA" } }],
  ],
  ["hidden reasoning without state", [added({ type: "reasoning" }), done({ type: "reasoning", summary: [] })], []],
];
for (const [what, events, blocks] of streamRows) {
  test(`a stream is read: ${what}`, () => assert.deepEqual(blocksOf(events), blocks));
}

test("citations come as they are told, or with the finished text", () => {
  const annotation = { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 1 };
  const cited = { type: "message", content: [{ type: "output_text", text: "A", annotations: [annotation] }] };
  const told = { type: "response.output_text.annotation.added", output_index: 0, content_index: 0, annotation };
  const citations = [{ url: "https://a.example", title: "A", start: 0, end: 1 }];
  assert.deepEqual(blocksOf([textDelta("A"), told, done(cited)]), [{ kind: "text", text: "A", citations }]);
  assert.deepEqual(blocksOf([textDelta("A"), done(cited)]), [{ kind: "text", text: "A", citations }]);
});

test("trap 20 (blocks never overlap, every parallel call kept): items that interleave are told one after the other", () => {
  const second = { ...call, id: "fc_2", call_id: "c2", arguments: '{"b":2}' };
  const events = [
    callAdded(call, 0),
    callAdded(second, 1),
    callDelta('{"a"', 0),
    callDelta('{"b":', 1),
    callDelta(":1}", 0),
    done(second, 1),
    done(call, 0),
  ];
  assert.deepEqual(blocksOf(events), [
    { kind: "call", id: "c1", name: "look", input: '{"a":1}' },
    { kind: "call", id: "c2", name: "look", input: '{"b":2}' },
  ]);
});

test("an item that was never finished is told from the response at the end", () => {
  const events = [created, callAdded(call, 0), textDelta("x", 1), finalOf("completed", [call, message("xy")])];
  assert.deepEqual(fold(events).choices[0]?.blocks, [
    { kind: "call", id: "c1", name: "look", input: '{"a":1}' },
    { kind: "text", text: "xy" },
  ]);
});

test("an item that the end numbers otherwise is not told twice", () => {
  const events = [created, added(message()), textDelta("A"), done(message("A"))];
  const output = [{ type: "reasoning", id: "rs_1", summary: [] }, message("A")];
  assert.deepEqual(fold([...events, finalOf("completed", output)]).choices[0]?.blocks, [{ kind: "text", text: "A" }]);
});

test("events that carry nothing of the answer are passed over, whatever they are", () => {
  const progress = ["keepalive", "response.queued", "response.web_search_call.searching", "response.brand.new", ""];
  const noise = [...progress.map((type) => ({ type, output_index: 0 })), "[DONE]", null, 7, [], {}];
  assert.deepEqual(read([...noise, created, ...noise, textDelta("A"), ...noise, done(message("A")), completed]), [
    ...unfoldReply(fold([created, done(message("A")), completed])),
  ]);
});

const reasonRows: [string, Fields, string][] = [
  ["completed", finalOf("completed"), "stop"],
  [
    "trap 12: cut by the limit",
    finalOf("incomplete", [], { incomplete_details: { reason: "max_output_tokens" } }),
    "length",
  ],
  ["cut by a filter", finalOf("incomplete", [], { incomplete_details: { reason: "content_filter" } }), "refusal"],
  [
    "cut for a reason not known yet",
    finalOf("incomplete", [], { incomplete_details: { reason: "steered" } }),
    "length",
  ],
  ["with calls", finalOf("completed", [call]), "calls"],
];
for (const [what, final, reason] of reasonRows) {
  test(`why an answer ended is read from its status: ${what}`, () => {
    assert.equal(fold([created, final]).choices[0]?.reason, reason);
    assert.equal(readReply(final["response"])?.choices[0]?.reason, reason);
  });
}

test("trap 8 (read usage from response.incomplete as well)", () => {
  assert.equal(fold([created, finalOf("incomplete")]).usage?.inputTokens, 6n);
});

const failed = finalOf("failed", [], { error: { code: "server_error", message: "Broken" } });
const errorRows: [string, unknown[]][] = [
  ["flat", [{ type: "error", code: "server_error", message: "Broken", param: null }]],
  ["nested", [{ type: "error", error: { type: "server_error", code: "server_error", message: "Broken" } }]],
  ["without a type", [{ error: { code: "server_error", message: "Broken" } }]],
  ["a failed response", [failed]],
  ["both", [{ type: "error", code: "server_error", message: "Broken" }, failed]],
];
for (const [what, events] of errorRows) {
  test(`trap 22 (a failure after 200 is no clean end): one error ends the reply: ${what}`, () => {
    const told = read([created, textDelta("A"), ...events, completed]);
    const errors = told.flatMap((event) => (event.kind === "error" ? [event.error] : []));
    assert.equal(errors.length, 1);
    assert.deepEqual([errors[0]?.message, errors[0]?.code], ["Broken", "server_error"]);
    assert.deepEqual(
      told.slice(-2).map(({ kind }) => kind),
      ["block-end", "error"],
    );
  });
}

const wireToken = { token: "A", logprob: -0.5, bytes: [65], top_logprobs: [{ token: "B", logprob: -2, bytes: [] }] };
const tokenRead = { token: "A", logprob: -0.5, bytes: [65], alternatives: [{ token: "B", logprob: -2 }] };
const withTokens = { ...part, text: "A", logprobs: [wireToken] };

test("logprobs come with the words, or with the finished part only, and once", () => {
  const partDone = { type: "response.content_part.done", output_index: 0, content_index: 0, part: withTokens };
  const item = { ...message(), content: [withTokens] };
  const streams: Fields[][] = [
    [{ ...textDelta("A"), logprobs: [wireToken] }],
    [textDelta("A")],
    [{ ...textDelta("A"), logprobs: [] }],
    [textDelta("A"), { ...textDelta(""), logprobs: [wireToken] }],
    [],
  ];
  for (const deltas of streams) {
    const blocks = blocksOf([added(message()), partAdded(), ...deltas, partDone, done(item)]);
    assert.deepEqual(blocks, [{ kind: "text", text: "A", logprobs: [tokenRead] }]);
  }
  assert.deepEqual(readReply({ ...head, output: [item] })?.choices[0]?.blocks, [
    { kind: "text", text: "A", logprobs: [tokenRead] },
  ]);
});

test("a stream that just ends was not whole", () => {
  const kinds = (events: unknown[]) => read(events).map(({ kind }) => kind);
  assert.deepEqual(kinds([created, textDelta("A")]), ["start", "block-start", "block-delta", "block-end", "error"]);
  assert.deepEqual(kinds([]), ["start", "error"]);
});

test("nothing is told behind the end", () => {
  const told = read([created, completed, textDelta("A"), failed, completed]);
  assert.deepEqual(
    told.map(({ kind }) => kind),
    ["start", "choice-finish", "finish"],
  );
});

test("a whole response is read; of one that is not finished, or failed, nothing", () => {
  const whole = { ...head, status: "completed", output: [reasoning, message("A", "B"), call], usage };
  const reply = readReply(whole);
  assert.deepEqual(
    reply?.choices[0]?.blocks.map(({ kind }) => kind),
    ["thinking", "text", "text", "call"],
  );
  assert.deepEqual([reply?.id, reply?.model, reply?.createdAtSeconds], ["resp_1", "gpt", 7]);
  for (const status of ["failed", "queued", "in_progress", "cancelled"]) {
    assert.equal(readReply({ ...whole, status }), undefined);
  }
  assert.ok(readReply({ ...whole, status: "complete" }), "a word of a server that imitates OpenAI");
  for (const body of [undefined, null, "x", {}, { output: {} }, { error: { message: "x" } }]) {
    assert.equal(readReply(body), undefined);
  }
});

test("items of the provider's own tools and parts of no known kind are no blocks", () => {
  const output = [
    { type: "web_search_call", id: "ws_1" },
    { type: "message", content: [{ type: "hologram" }] },
    7,
    null,
  ];
  assert.deepEqual(readReply({ ...head, output })?.choices[0]?.blocks, []);
});
