import assert from "node:assert/strict";
import { test } from "node:test";
import { foldReply, type ReplyEvent } from "../reply.ts";
import { endingKinds } from "../testing/ending-kinds.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("anthropic-messages");
const createStreamReader = () => createShownReader("anthropic-messages");

const start = (usage: unknown = { input_tokens: 25, output_tokens: 1 }): object => ({
  type: "message_start",
  message: { id: "msg_1", model: "claude-served", content: [], usage },
});
const open = (content_block: unknown, index = 0): object => ({ type: "content_block_start", index, content_block });
const delta = (change: unknown, index = 0): object => ({ type: "content_block_delta", index, delta: change });
const stop = { type: "content_block_stop", index: 0 };
const ending = (
  stop_reason: unknown = "end_turn",
  usage: unknown = { output_tokens: 7 },
  stop_sequence = null,
): object => ({
  type: "message_delta",
  delta: { stop_reason, stop_sequence },
  usage,
});
const end = { type: "message_stop" };
const textBlock = [open({ type: "text", text: "" }), delta({ type: "text_delta", text: "Hi" }), stop];

function readAll(...data: unknown[]): ReplyEvent[] {
  const reader = createStreamReader();
  return [...data.flatMap((one) => reader.read(one)), ...reader.end()];
}

const kinds = (events: ReplyEvent[]): string => events.map(({ kind }) => kind).join(" ");

test("API spec, Events: message_start to message_stop, with ping in between, is one whole answer", () => {
  const events = readAll(start(), { type: "ping" }, ...textBlock, ending(), end);
  assert.deepEqual(events, [
    { kind: "start", id: "msg_1", model: "claude-served" },
    { kind: "block-start", choice: 0, block: { kind: "text" } },
    { kind: "block-delta", choice: 0, text: "Hi" },
    { kind: "block-end", choice: 0 },
    { kind: "choice-finish", choice: 0, reason: "stop" },
    { kind: "finish", usage: foldReply(events).usage },
  ]);
});

test("trap 6 (message_start carries a placeholder output count): usage is that of message_delta, or none", () => {
  const usage = foldReply(readAll(start(), ...textBlock, ending(), end)).usage;
  assert.deepEqual([usage?.inputTokens, usage?.outputTokens], [25n, 7n]);
  for (const none of [null, {}, { output_tokens: null }]) {
    assert.equal(foldReply(readAll(start(), ...textBlock, ending("end_turn", none), end)).usage, undefined);
  }
});

test("trap 7 (input 0 or an estimate first): the cumulative counts of message_delta replace it", () => {
  const truth = { input_tokens: 30, cache_read_input_tokens: 6, output_tokens: 7, output_tokens_details: null };
  const usage = foldReply(readAll(start({ input_tokens: 0 }), ...textBlock, ending("end_turn", truth), end)).usage;
  assert.deepEqual([usage?.inputTokens, usage?.cacheReadTokens, usage?.outputTokens], [30n, 6n, 7n]);
});

test("traps 1 and 2 (cache counts): reads and writes of 5 m and 1 h are buckets of their own", () => {
  const counts = {
    input_tokens: 10,
    cache_read_input_tokens: 20,
    cache_creation_input_tokens: 35,
    cache_creation: { ephemeral_5m_input_tokens: 5, ephemeral_1h_input_tokens: 30 },
  };
  const usage = foldReply(readAll(start(counts), ...textBlock, ending(), end)).usage;
  assert.deepEqual(
    [usage?.inputTokens, usage?.cacheReadTokens, usage?.cacheWrite5mTokens, usage?.cacheWrite1hTokens],
    [10n, 20n, 5n, 30n],
  );
});

test("thinking, redacted thinking and calls, also without arguments, are blocks one after the other", () => {
  const events = readAll(
    start(),
    open({ type: "thinking", thinking: "", signature: "" }),
    delta({ type: "thinking_delta", thinking: "hm" }),
    delta({ type: "signature_delta", signature: "c2ln" }),
    stop,
    open({ type: "redacted_thinking", data: "ZA==" }),
    stop,
    open({ type: "tool_use", id: "toolu_1", name: "f", input: {} }),
    delta({ type: "input_json_delta", partial_json: "" }),
    delta({ type: "input_json_delta", partial_json: '{"a":' }),
    delta({ type: "input_json_delta", partial_json: "1}" }),
    stop,
    open({ type: "tool_use", id: "toolu_2", name: "now", input: {} }),
    delta({ type: "input_json_delta", partial_json: "" }),
    stop,
    ending("tool_use"),
    end,
  );
  const [choice] = foldReply(events).choices;
  assert.deepEqual(choice, {
    blocks: [
      { kind: "thinking", text: "hm", opaque: { issuer: "anthropic-messages", value: "c2ln" } },
      { kind: "thinking", text: "", opaque: { issuer: "anthropic-messages", value: "redacted.ZA==" } },
      { kind: "call", id: "toolu_1", name: "f", input: '{"a":1}' },
      { kind: "call", id: "toolu_2", name: "now", input: "" },
    ],
    reason: "calls",
  });
});

test("an input that comes whole at the start of its block is not lost, and counts once", () => {
  const events = readAll(start(), open({ type: "tool_use", id: "t", name: "f", input: { a: 1 } }), stop, ending(), end);
  const blocks = [{ kind: "call", id: "t", name: "f", input: '{"a":1}' }];
  assert.deepEqual(foldReply(events).choices[0]?.blocks, blocks);
  const whole = open({ type: "tool_use", id: "t", name: "f", input: { a: 1 } });
  const fragment = delta({ type: "input_json_delta", partial_json: '{"a":1}' });
  const both = readAll(start(), whole, fragment, stop, ending(), end);
  assert.deepEqual(foldReply(both).choices[0]?.blocks, blocks);
});

test("citations stand with their text, whatever came first; blocks of server tools are passed over", () => {
  const citation = { type: "web_search_result_location", url: "https://a.example", title: "T", cited_text: "c" };
  const events = readAll(
    start(),
    open({ type: "server_tool_use", id: "s", name: "web_search", input: {} }),
    delta({ type: "input_json_delta", partial_json: '{"query":"x"}' }),
    stop,
    open({ type: "web_search_tool_result", tool_use_id: "s", content: [{ type: "text", text: "raw" }] }),
    stop,
    open({ type: "text", text: "", citations: [] }),
    delta({ type: "citations_delta", citation }),
    delta({ type: "text_delta", text: "So" }),
    stop,
    ending(),
    end,
  );
  assert.deepEqual(foldReply(events).choices[0]?.blocks, [
    { kind: "text", text: "So", citations: [{ url: "https://a.example", title: "T", text: "c" }] },
  ]);
});

const stopReasons = [
  ...endingKinds.flatMap(({ format, reasons }) => (format === "anthropic-messages" ? Object.entries(reasons) : [])),
  ["something_new", "stop"] as const,
];

test("trap 12 (max_tokens is length): every stop_reason, streamed and whole", () => {
  assert.ok(stopReasons.length > 8);
  for (const [stopReason, reason] of stopReasons) {
    const [streamed] = foldReply(readAll(start(), ending(stopReason), end)).choices;
    const [whole] = readReply({ content: [], stop_reason: stopReason })?.choices ?? [];
    assert.deepEqual([streamed?.reason, whole?.reason], [reason, reason], stopReason);
  }
  const [stopped] = foldReply(readAll(start(), ending("stop_sequence", {}, "END" as never), end)).choices;
  assert.equal(stopped?.stopSequence, "END");
});

test("trap 20 (one message_start): a repeated one starts nothing, and a block that never ended ends", () => {
  const events = readAll(
    start(),
    start(),
    textBlock[0],
    textBlock[1],
    open({ type: "text", text: "!" }, 1),
    ending(),
    end,
  );
  assert.equal(
    kinds(events),
    "start block-start block-delta block-end block-start block-delta block-end choice-finish finish",
  );
});

test("trap 22 (a failure after 200 is an error, not a clean end): error events, and every cut", () => {
  const failed = readAll(start(), ...textBlock, {
    type: "error",
    error: { type: "overloaded_error", message: "Busy" },
  });
  assert.deepEqual(failed.at(-1), {
    kind: "error",
    error: { message: "Busy", type: "overloaded_error", code: undefined },
  });
  const whole = [start(), ...textBlock, ending(), end];
  for (let length = 0; length < whole.length; length += 1) {
    const events = readAll(...whole.slice(0, length));
    assert.equal(events.at(-1)?.kind, "error", `${length} events`);
    assert.equal(events.filter(({ kind }) => kind === "finish" || kind === "choice-finish").length, 0);
  }
  assert.equal(readAll(start(), ...textBlock, end).at(-1)?.kind, "error", "an end without a stop_reason");
  assert.equal(readAll(start(), ...textBlock, ending(""), end).at(-1)?.kind, "error", "an empty stop_reason");
  assert.equal(readAll({ type: "error" }).length, 1);
});

const callBlock = (index: number): object =>
  open({ type: "tool_use", id: `toolu_${index}`, name: "look", input: {} }, index);
const input = (partial_json: string, index: number): object => delta({ type: "input_json_delta", partial_json }, index);
const stopOf = (index: number): object => ({ type: "content_block_stop", index });

const mixes: Record<string, object[]> = {
  "as they end": [stopOf(1), stop, stopOf(2)],
  "in their order": [stop, stopOf(1), stopOf(2)],
  "the other way round": [stopOf(2), stopOf(1), stop],
  "none told": [],
};
for (const [name, stops] of Object.entries(mixes)) {
  test(`trap 20 (blocks never overlap): blocks that a server mixes come one after the other, ends ${name}`, () => {
    const [textStart, hi] = textBlock;
    const mixed = [textStart, callBlock(1), hi, input('{"a"', 1), callBlock(2), input('{"b"', 2), input(":1}", 1)];
    const events = readAll(start(), ...mixed, input(":2}", 2), ...stops, ending("tool_use"), end);
    assert.equal(
      kinds(events),
      "start block-start block-delta block-end block-start block-delta block-delta block-end " +
        "block-start block-delta block-delta block-end choice-finish finish",
    );
    assert.deepEqual(foldReply(events).choices[0]?.blocks, [
      { kind: "text", text: "Hi" },
      { kind: "call", id: "toolu_1", name: "look", input: '{"a":1}' },
      { kind: "call", id: "toolu_2", name: "look", input: '{"b":2}' },
    ]);
  });
}

test("what is of the block whose turn it is comes at once; one that waited goes on where it is its turn", () => {
  const reader = createStreamReader();
  const read = (...data: object[]): string => kinds(data.flatMap((one) => reader.read(one)));
  const text = (index: number) => delta({ type: "text_delta", text: "x" }, index);
  const textStart = (index: number) => open({ type: "text", text: "" }, index);
  assert.equal(read(start(), textStart(0), textStart(1), text(0)), "start block-start block-delta");
  assert.equal(read(text(1), text(1)), "");
  assert.equal(read(stop), "block-end block-start block-delta block-delta");
  assert.equal(read(text(1)), "block-delta");
  assert.equal(read(stopOf(1), ending(), end), "block-end choice-finish finish");
});

test("a block of which nobody says that it has ended keeps the next one waiting for a moment only", () => {
  const reader = createStreamReader();
  const read = (...data: object[]): string => kinds(data.flatMap((one) => reader.read(one)));
  read(start(), ...textBlock.slice(0, 1), open({ type: "text", text: "" }, 1));
  const words = Array.from({ length: 10_000 }, () => delta({ type: "text_delta", text: "word" }, 1));
  const told = read(...words.slice(0, 64));
  assert.match(told, /^block-end block-start block-delta/);
  assert.equal(read(...words.slice(64, 66)), "block-delta block-delta");
  assert.ok(!read(...words.slice(66)).includes("error"));
  assert.equal(read(delta({ type: "signature_delta", signature: "late" })), "");
  assert.equal(read(ending(), end), "block-end choice-finish finish");
});

test("a block that others are mixed with for long goes on where something comes of it now and then", () => {
  const reader = createStreamReader();
  const read = (...data: object[]): string => kinds(data.flatMap((one) => reader.read(one)));
  const text = (index: number) => delta({ type: "text_delta", text: "x" }, index);
  read(start(), ...textBlock.slice(0, 1), open({ type: "text", text: "" }, 1));
  for (let round = 0; round < 20; round += 1) {
    assert.equal(read(...Array.from({ length: 30 }, () => text(1)), text(0)), "block-delta");
  }
});

test("no more waits for its turn than any blocks that a server mixes have", () => {
  const reader = createStreamReader();
  for (const one of [start(), ...textBlock.slice(0, 1), callBlock(1)]) reader.read(one);
  const kept = Array.from({ length: 10 }, () => reader.read(input("x".repeat(100_000), 1)));
  assert.deepEqual(kept.flat(), []);
  assert.equal(kinds(reader.read(input("x".repeat(100_000), 1))), "error");
});

test("trap 20 (blocks never overlap): what goes on with a block that has ended is not put into another one", () => {
  const text = delta({ type: "text_delta", text: " there" });
  const late = [...textBlock, callBlock(1), input('{"a":', 1), text, input("1}", 1)];
  const events = readAll(start(), ...late, stop, ending("tool_use"), end);
  assert.equal(kinds(events.filter(({ kind }) => kind === "error" || kind === "finish")), "error");
  const told = events.map((event) => (event.kind === "block-delta" ? event.text : "")).join("");
  assert.ok(!told.includes("there") && !told.includes("1}"), told);
  const unnumbered = [open({ type: "text", text: "" }, 5), delta({ type: "text_delta", text: "Hi" }, 0), stop];
  assert.equal(kinds(readAll(start(), ...unnumbered, ending(), end)).includes("error"), false);
});

test("nothing is read behind the end, and nothing else than an object is an event", () => {
  const behind = [...textBlock, { type: "error", error: { message: "x" } }, "[DONE]", null, 7, [], {}];
  assert.equal(kinds(readAll("[DONE]", null, start(), ending(), end, ...behind)), "start choice-finish finish");
});

test("a text whose block_start is missing is not lost", () => {
  const events = readAll(delta({ type: "text_delta", text: "Hi" }), stop, ending(), end);
  assert.deepEqual(foldReply(events).choices[0]?.blocks, [{ kind: "text", text: "Hi" }]);
});

test("a whole message reads like its stream", () => {
  const reply = readReply({
    id: "msg_1",
    type: "message",
    model: "claude-served",
    content: [
      { type: "thinking", thinking: "hm", signature: "c2ln" },
      { type: "redacted_thinking", data: "ZA==" },
      { type: "server_tool_use", id: "s", name: "web_search", input: {} },
      { type: "text", text: "So", citations: [{ url: "https://a.example", cited_text: "c" }] },
      { type: "tool_use", id: "t", name: "f", input: { a: 1 } },
      { type: "tool_use", id: "u", name: "now", input: {} },
    ],
    stop_reason: "stop_sequence",
    stop_sequence: "END",
    usage: { input_tokens: 3, output_tokens: 9, output_tokens_details: { thinking_tokens: 4 } },
  });
  assert.deepEqual(reply?.choices, [
    {
      blocks: [
        { kind: "thinking", text: "hm", opaque: { issuer: "anthropic-messages", value: "c2ln" } },
        { kind: "thinking", text: "", opaque: { issuer: "anthropic-messages", value: "redacted.ZA==" } },
        { kind: "text", text: "So", citations: [{ url: "https://a.example", text: "c" }] },
        { kind: "call", id: "t", name: "f", input: '{"a":1}' },
        { kind: "call", id: "u", name: "now", input: "" },
      ],
      reason: "stop-sequence",
      stopSequence: "END",
    },
  ]);
  assert.deepEqual([reply?.id, reply?.model, reply?.usage?.outputTokens], ["msg_1", "claude-served", 5n]);
  assert.equal(reply?.usage?.reasoningTokens, 4n);
  for (const none of [null, "x", {}, { content: "x" }]) assert.equal(readReply(none), undefined);
});

test("a message_start that holds the content and a stop_reason is told whole", () => {
  const content = [
    { type: "text", text: "Hi" },
    { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} },
    { type: "tool_use", id: "toolu_1", name: "look", input: { a: 1 } },
  ];
  const usage = { input_tokens: 25, output_tokens: 9 };
  const whole = { id: "msg_1", model: "claude-served", content, stop_reason: "tool_use", usage };
  const events = readAll({ type: "message_start", message: whole }, end);
  const { usage: counted, ...reply } = foldReply(events);
  assert.deepEqual(reply, {
    id: "msg_1",
    model: "claude-served",
    choices: [
      {
        blocks: [
          { kind: "text", text: "Hi" },
          { kind: "call", id: "toolu_1", name: "look", input: '{"a":1}' },
        ],
        reason: "calls",
      },
    ],
  });
  assert.deepEqual([counted?.inputTokens, counted?.outputTokens], [25n, 9n]);
  const again = { type: "message_start", message: whole };
  assert.equal(kinds(readAll(again, again, end)), kinds(events), "one that comes twice is one");
});
