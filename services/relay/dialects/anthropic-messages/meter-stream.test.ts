import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTally, estimateTokens, type EventVerdict, type Tally } from "../dialect.ts";
import { readStreamEvent } from "../sse.ts";
import { envelopeOf } from "../testing/reading.ts";
import { dialects } from "../index.ts";

const { createTap } = dialects["anthropic-messages"];

const eventOf = (type: string, fields: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}  \n\n`;
const messageStart = (usage: unknown = { input_tokens: 25, cache_read_input_tokens: 5, output_tokens: 1 }): string =>
  eventOf("message_start", { message: { id: "msg_1", model: "claude-served", content: [], stop_reason: null, usage } });
const blockStart = (block: object): string => eventOf("content_block_start", { index: 0, content_block: block });
const blockDelta = (delta: object): string => eventOf("content_block_delta", { index: 0, delta });
const blockStop = eventOf("content_block_stop", { index: 0 });
const messageDelta = (usage: unknown, stopReason: unknown = "end_turn"): string =>
  eventOf("message_delta", { delta: { stop_reason: stopReason, stop_sequence: null }, usage });
const messageStop = eventOf("message_stop");
const ping = eventOf("ping");
const textStart = blockStart({ type: "text", text: "" });
const textDelta = blockDelta({ type: "text_delta", text: "12345678" });

function watch(events: string[]): { verdicts: EventVerdict[]; tally: Tally } {
  const tap = createTap(envelopeOf(), (error) => error);
  const tally = emptyTally();
  return { verdicts: events.map((event) => tap.read(readStreamEvent(Buffer.from(event)), tally)), tally };
}

test("API spec, Events: Messages (Format B): `ping` may arrive in between; token counts are in `message_delta`; API spec, Streaming that stops partway: Messages: whole when `message_stop` arrived and `stop_reason` in `message_delta` has a value", () => {
  const events = [
    messageStart(),
    ping,
    textStart,
    textDelta,
    blockStop,
    messageDelta({ output_tokens: 7 }),
    messageStop,
  ];
  const { verdicts, tally } = watch(events);
  assert.deepEqual(
    verdicts,
    Array.from(events, () => "pass"),
  );
  assert.ok(tally.isComplete && tally.hasFinish && tally.hasContent && !tally.isFailed);
  assert.equal(tally.modelServed, "claude-served");
  assert.equal(tally.contentTokens, estimateTokens("12345678"));
  assert.equal(tally.usage?.inputTokens, 25n);
  assert.equal(tally.usage?.cacheReadTokens, 5n);
  assert.equal(tally.usage?.outputTokens, 7n);
});

test("an input of 0 behind one that was told says nothing, but one that was all cached does", () => {
  const usageBehind = (usage: object) =>
    watch([messageStart(), textStart, textDelta, blockStop, messageDelta(usage), messageStop]).tally.usage;
  const none = { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 7 };
  for (const usage of [none, { input_tokens: 0, output_tokens: 7 }]) {
    const { inputTokens, cacheReadTokens, outputTokens } = usageBehind(usage) ?? {};
    assert.deepEqual([inputTokens, cacheReadTokens, outputTokens], [25n, 5n, 7n]);
  }
  const { inputTokens, cacheReadTokens } = usageBehind({ ...none, cache_read_input_tokens: 30 }) ?? {};
  assert.deepEqual([inputTokens, cacheReadTokens], [0n, 30n]);
});

test("trap 6 (message_start carries a placeholder output count of 1; never settle on it): cut before message_delta", () => {
  const { tally } = watch([messageStart(), textStart, textDelta]);
  assert.equal(tally.usage, undefined);
  assert.equal(tally.inputUsage?.inputTokens, 25n);
  assert.equal(tally.inputUsage?.outputTokens, 0n);
  assert.equal(tally.inputUsage?.reasoningTokens, 0n);
});

test("trap 6: a message_delta that tells no output count does not make the placeholder one", () => {
  for (const usage of [undefined, null, {}, { input_tokens: 25 }, { output_tokens: null }]) {
    const { tally } = watch([messageStart(), textStart, textDelta, messageDelta(usage), messageStop]);
    assert.equal(tally.usage, undefined, JSON.stringify(usage));
    assert.equal(tally.inputUsage?.outputTokens, 0n);
    assert.equal(tally.isComplete, true);
  }
  const thinking = { input_tokens: 25, output_tokens: 1, output_tokens_details: { thinking_tokens: 1 } };
  const { tally } = watch([messageStart(thinking), messageDelta({ output_tokens: 9 })]);
  assert.equal(tally.usage?.outputTokens, 9n);
  assert.equal(tally.usage?.reasoningTokens, 0n, "its details are a placeholder too");
});

test("message_delta without input tokens (old models): those of message_start stand", () => {
  const { tally } = watch([messageStart(), messageDelta({ output_tokens: 7, input_tokens: null })]);
  assert.deepEqual(tally.usage?.inputTokens, 25n);
  assert.deepEqual(tally.usage?.cacheReadTokens, 5n);
});

test("trap 7 (message_start with an estimate or 0, the truth in message_delta): cumulative counts replace the first ones", () => {
  const truth = { input_tokens: 30, cache_read_input_tokens: 6, cache_creation_input_tokens: 2, output_tokens: 7 };
  for (const first of [{ input_tokens: 0, output_tokens: 0 }, { input_tokens: 99, output_tokens: 1 }, null]) {
    const { tally } = watch([messageStart(first), messageDelta(truth)]);
    assert.equal(tally.usage?.inputTokens, 30n);
    assert.equal(tally.usage?.cacheReadTokens, 6n);
    assert.equal(tally.usage?.cacheWrite5mTokens, 2n);
  }
});

test("the counts of the last of several message_deltas stand", () => {
  const { tally } = watch([
    messageStart(),
    messageDelta({ output_tokens: 3 }, null),
    messageDelta({ output_tokens: 8 }),
  ]);
  assert.equal(tally.usage?.outputTokens, 8n);
});

test("a message_start that tells no input, or 0, is no input count of the provider", () => {
  for (const usage of [undefined, null, {}, { input_tokens: 0, output_tokens: 1 }]) {
    assert.equal(watch([messageStart(usage ?? null), textDelta]).tally.inputUsage, undefined, JSON.stringify(usage));
  }
});

test("API spec, Streaming that stops partway: Messages. An upstream error ends the answer and never reaches the caller", () => {
  const errors = [
    eventOf("error", { error: { type: "overloaded_error", message: "Overloaded" } }),
    'data: {"error":{"message":"Overloaded"}}\n\n',
  ];
  for (const error of errors) {
    const { verdicts, tally } = watch([messageStart(), textStart, textDelta, error]);
    assert.deepEqual(verdicts, ["pass", "pass", "pass", "end"]);
    assert.equal(tally.isFailed, true);
    assert.equal(tally.isComplete, false);
  }
});

test("whole means: message_stop arrived and stop_reason has a value", () => {
  assert.equal(watch([messageStart(), textDelta, messageStop]).tally.isComplete, false);
  assert.equal(
    watch([messageStart(), textDelta, messageDelta({ output_tokens: 2 }, null), messageStop]).tally.isComplete,
    false,
  );
  assert.equal(
    watch([messageStart(), textDelta, messageDelta({ output_tokens: 2 }, ""), messageStop]).tally.isComplete,
    false,
  );
  const unstopped = watch([messageStart(), textDelta, messageDelta({ output_tokens: 2 })]).tally;
  assert.deepEqual([unstopped.hasFinish, unstopped.isComplete], [true, false]);
});

for (const reason of ["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"]) {
  test(`stop_reason ${reason} makes an answer whole`, () => {
    assert.equal(
      watch([messageStart(), messageDelta({ output_tokens: 2 }, reason), messageStop]).tally.isComplete,
      true,
    );
  });
}

test("a refusal before any output is not billed, whatever it counts; one behind output is", () => {
  const refused = (...output: string[]) =>
    watch([messageStart(), ...output, messageDelta({ input_tokens: 25, output_tokens: 1 }, "refusal"), messageStop]);
  const empty = refused().tally;
  assert.ok(empty.isComplete && !empty.hasContent);
  assert.equal(empty.usage, undefined);
  assert.equal(refused(textStart, textDelta, blockStop).tally.usage?.inputTokens, 25n);
  const hidden = refused(blockStart({ type: "thinking", thinking: "", signature: "" }), blockStop).tally;
  assert.equal(hidden.usage?.outputTokens, 1n, "thinking is output, shown or not");
});

for (const [category, isBilled] of [
  [null, false],
  ["cyber", false],
  ["general_harms", false],
  ["bio", true],
  ["frontier_llm", true],
  ["reasoning_extraction", true],
  ["of_tomorrow", true],
] as const) {
  test(`a refusal before any output of the category ${category} is ${isBilled ? "billed" : "not billed"}`, () => {
    const delta = { stop_reason: "refusal", stop_details: { type: "refusal", category, explanation: null } };
    const ending = eventOf("message_delta", { delta, usage: { input_tokens: 25, output_tokens: 0 } });
    const { tally } = watch([messageStart(), ending, messageStop]);
    assert.equal(tally.usage?.inputTokens, isBilled ? 25n : undefined);
  });
}

const contentRows: [string, string[], string][] = [
  ["text", [textStart, textDelta], "12345678"],
  ["thinking", [blockDelta({ type: "thinking_delta", thinking: "1234" })], "1234"],
  ["the signature of thinking that is not shown", [blockDelta({ type: "signature_delta", signature: "opaque" })], ""],
  [
    "a tool call, with or without arguments (trap 20)",
    [blockStart({ type: "tool_use", id: "t", name: "n", input: {} })],
    "",
  ],
  ["arguments of a tool call", [blockDelta({ type: "input_json_delta", partial_json: '{"a"' })], '{"a"'],
  ["redacted thinking", [blockStart({ type: "redacted_thinking", data: "opaque" })], ""],
  ["a result of a tool that the provider ran", [blockStart({ type: "web_search_tool_result", content: [] })], ""],
  ["text that the start of a block brings", [blockStart({ type: "text", text: "1234" })], "1234"],
];

for (const [what, events, text] of contentRows) {
  test(`content is ${what}`, () => {
    const { tally } = watch([messageStart(), ...events]);
    assert.equal(tally.hasContent, true);
    assert.equal(tally.contentTokens, estimateTokens(text));
  });
}

test("no content is what opens a block empty, so an answer cut behind it is free", () => {
  const opening = [messageStart(), ping, textStart, blockStart({ type: "thinking", thinking: "", signature: "" })];
  const { tally } = watch([...opening, blockDelta({ type: "text_delta", text: "" }), blockStop]);
  assert.equal(tally.hasContent, false);
  assert.equal(tally.contentTokens, 0);
});

test("a repeated message_start is tolerated", () => {
  const { verdicts, tally } = watch([
    messageStart(),
    messageStart(),
    textDelta,
    messageDelta({ output_tokens: 2 }),
    messageStop,
  ]);
  assert.ok(verdicts.every((verdict) => verdict === "pass"));
  assert.equal(tally.usage?.inputTokens, 25n);
});

test("what is not JSON, not of the shape or of an unknown type passes untouched and raises nothing", () => {
  const odd = [
    "data: {half\n\n",
    "data: null\n\n",
    ": comment\n\n",
    eventOf("content_block_delta"),
    eventOf("message_start"),
  ];
  const { verdicts } = watch([...odd, eventOf("message_delta"), eventOf("brand_new", { delta: 7 }), eventOf("ping")]);
  assert.deepEqual(new Set(verdicts), new Set(["pass"]));
});

const wholeStart = (fields: object = {}): string =>
  eventOf("message_start", {
    message: {
      id: "msg_1",
      model: "claude-served",
      content: [
        { type: "text", text: "12345678" },
        { type: "tool_use", id: "toolu_1", name: "look", input: { a: 12 } },
      ],
      stop_reason: "tool_use",
      usage: { input_tokens: 25, output_tokens: 9 },
      ...fields,
    },
  });

test("a message_start that holds content and a stop_reason is a whole answer: its counts are no placeholder", () => {
  const { tally } = watch([wholeStart(), messageStop]);
  assert.deepEqual([tally.hasContent, tally.hasFinish, tally.isComplete], [true, true, true]);
  assert.deepEqual([tally.usage?.inputTokens, tally.usage?.outputTokens], [25n, 9n]);
  assert.equal(tally.contentTokens, estimateTokens('12345678{"a":12}'));
  const start = watch([wholeStart()]).tally;
  assert.deepEqual([start.isEnding, start.isComplete], [true, false], "kept back until it is charged");
});

test("content in message_start counts where the answer goes on behind it, its output count does not", () => {
  const { tally } = watch([wholeStart({ stop_reason: null })]);
  assert.deepEqual([tally.hasContent, tally.hasFinish, tally.usage], [true, false, undefined]);
  const { tally: last } = watch([wholeStart(), messageDelta({ output_tokens: 11 }), messageStop]);
  assert.equal(last.usage?.outputTokens, 11n, "later counts replace those of the start");
});

test("searches and pages of a stream that is cut before its counts are those that were seen", () => {
  const use = (name: string): string => blockStart({ type: "server_tool_use", id: "srvtoolu_1", name, input: {} });
  const start = messageStart({ input_tokens: 5, server_tool_use: { web_search_requests: 0, web_fetch_requests: 0 } });
  const seen = [start, use("web_search"), use("web_search"), use("web_fetch"), use("code_execution"), textDelta];
  const { tally } = watch(seen);
  assert.deepEqual(tally.counted, { webSearches: 2n, webFetches: 1n });
  assert.equal("webSearches" in (tally.inputUsage ?? {}), false, "none had run when the input was counted");
  const told = watch([...seen, messageDelta({ output_tokens: 3, server_tool_use: { web_search_requests: 1 } })]).tally;
  assert.deepEqual([told.usage?.webSearches, told.usage?.webFetches], [1n, 0n], "the provider knows better");
});

test("the tier that served the answer is read where the provider tells it", () => {
  const told = { input_tokens: 5, output_tokens: 1, service_tier: "priority" };
  assert.equal(watch([messageStart(told), textDelta]).tally.serviceTier, "priority");
  assert.equal(watch([messageStart(), textDelta, messageDelta(told)]).tally.serviceTier, "priority");
  assert.equal(watch([messageStart(), textDelta]).tally.serviceTier, undefined);
});

test("counts of a message_delta without a stop_reason are running ones", () => {
  const early = messageDelta({ output_tokens: 1 }, null);
  assert.equal(watch([messageStart(), early, textDelta]).tally.runningAt, 0);
  assert.equal(
    watch([messageStart(), early, textDelta, messageDelta({ output_tokens: 7 })]).tally.runningAt,
    undefined,
  );
});

test("an input of one token in message_start is a placeholder", () => {
  assert.equal(watch([messageStart({ input_tokens: 1, output_tokens: 1 }), textDelta]).tally.inputUsage, undefined);
});

const fallback = (category: string | null): string =>
  blockStart({
    type: "fallback",
    from: { model: "claude-a" },
    to: { model: "claude-b" },
    trigger: { type: "refusal", category },
  }) + blockStop;
const runOf = (model: string, input: number, output: number, type = "message"): object => ({
  type,
  model,
  input_tokens: input,
  output_tokens: output,
});

/** Counts of a model that declined, of another that answered, and of the top level, which has the last. */
const handedOver = (output: number): object => ({
  input_tokens: 30,
  output_tokens: 7,
  iterations: [runOf("claude-a", 20, output), runOf("claude-b", 30, 7, "fallback_message")],
});

test("a model that declines before any output and hands over is billed by its category, behind output always", () => {
  const answered = (before: string[], output: number): bigint | undefined =>
    watch([
      messageStart(),
      ...before.flatMap((event) => event.split(/(?<=\n\n)/)),
      textStart,
      textDelta,
      blockStop,
      messageDelta(handedOver(output)),
      messageStop,
    ]).tally.usage?.inputTokens;
  assert.equal(answered([fallback("cyber")], 0), 30n);
  assert.equal(answered([fallback(null)], 0), 30n);
  assert.equal(answered([fallback("bio")], 0), 50n);
  assert.equal(answered([textStart, textDelta, blockStop, fallback("cyber")], 3), 50n);
});

test("where the last of several models declines, too, each is billed by its own category", () => {
  const refused = (first: string, last: string): Tally => {
    const delta = { stop_reason: "refusal", stop_details: { type: "refusal", category: last } };
    const usage = {
      input_tokens: 30,
      output_tokens: 0,
      iterations: [runOf("claude-a", 20, 0), runOf("claude-b", 30, 0)],
    };
    const events = [messageStart(), ...fallback(first).split(/(?<=\n\n)/), eventOf("message_delta", { delta, usage })];
    return watch([...events, messageStop]).tally;
  };
  assert.equal(refused("bio", "bio").usage?.inputTokens, 50n);
  assert.equal(refused("cyber", "bio").usage?.inputTokens, 30n);
  assert.equal(refused("bio", "cyber").usage?.inputTokens, 20n);
  const free = refused("cyber", "cyber");
  assert.equal(free.usage?.inputTokens ?? 0n, 0n);
  assert.equal(free.hasContent, false, "the mark of a handover is no content");
});
