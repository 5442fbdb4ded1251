import assert from "node:assert/strict";
import { test } from "node:test";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import type { Response, ResponseOutputItem, ResponseStreamEvent } from "openai/resources/responses/responses";
import { wrapOpaque } from "../opaque.ts";
import { foldReply, type Reply, type ReplyEvent } from "../reply.ts";
import { writeReply } from "./write-reply.ts";
import { createStreamWriter } from "./write-stream.ts";

const asked = { model: "m", wantsStreamUsage: true };
const usage = { inputTokens: 5n, cacheReadTokens: 3n, cacheWrite5mTokens: 2n, outputTokens: 4n, reasoningTokens: 6n };
const start: ReplyEvent = { kind: "start", id: "resp_1", model: "served", createdAtSeconds: 1_700_000_000 };
const finish: ReplyEvent = { kind: "finish", usage };
const delta = (text: string): ReplyEvent => ({ kind: "block-delta", choice: 0, text });
const open = (block: Extract<ReplyEvent, { kind: "block-start" }>["block"]): ReplyEvent => ({
  kind: "block-start",
  choice: 0,
  block,
});
const end: ReplyEvent = { kind: "block-end", choice: 0 };
const ended = (reason: "stop" | "length" | "calls" | "refusal" | "pause"): ReplyEvent => ({
  kind: "choice-finish",
  choice: 0,
  reason,
});
const textBlock = [open({ kind: "text" }), delta("Hel"), delta("lo"), end];
const thinkingBlock = [open({ kind: "thinking" }), delta("Hm"), delta("."), end];
const callBlock = [open({ kind: "call", id: "c1", name: "look" }), delta('{"a"'), delta(":1}"), end];

/** The events of a stream as official clients split it, and what they add up to. */
function write(events: ReplyEvent[], request?: Record<string, unknown>) {
  const writer = createStreamWriter({ ...asked, ...(request && { request }) });
  const told = events.map((event) => writer.write(event)).join("");
  const records = told.split("\n\n").slice(0, -1);
  const parsed = records.map((record) => {
    const [name, data] = record.split("\n");
    const event = JSON.parse((data ?? "").replace(/^data: /, "")) as ResponseStreamEvent;
    assert.equal(name, `event: ${event.type}`);
    return event;
  });
  let response: Response | undefined;
  for (const event of parsed) response = accumulateResponse(event, response);
  return { events: parsed, types: parsed.map(({ type }) => type), last: parsed.at(-1), response };
}

const lastResponse = (last: ResponseStreamEvent | undefined): Response => (last as { response: Response }).response;
const outputOf = (events: ReplyEvent[]): ResponseOutputItem[] => lastResponse(write(events).last).output;

test("calls of namespaced tools come back with their namespace, streamed and whole", () => {
  const tools = ["function", "custom"].map((type) => ({ type, name: `${type}_one` }));
  const request = { tools: [{ type: "namespace", name: "n", description: "", tools }] };
  const call = (name: string, isFreeText = false): ReplyEvent[] => [
    open({ kind: "call", id: `c_${name}`, name, ...(isFreeText && { isFreeText }) }),
    delta("{}"),
    end,
  ];
  const events = [
    start,
    ...call("n__function_one"),
    ...call("n__custom_one", true),
    ...call("plain"),
    ended("calls"),
    finish,
  ];
  const told = write(events, request);
  const expected = [
    ["function_call", "n", "function_one"],
    ["custom_tool_call", "n", "custom_one"],
    ["function_call", undefined, "plain"],
  ];
  const shown = (items: unknown[]): unknown[] =>
    items.map((item) => {
      const { type, namespace, name } = item as Record<string, unknown>;
      return [type, namespace, name];
    });
  const added = told.events.flatMap((event) => (event.type === "response.output_item.added" ? [event.item] : []));
  assert.deepEqual(shown(added), expected);
  assert.deepEqual(shown(lastResponse(told.last).output), expected);
  const whole = writeReply(foldReply(events), { ...asked, request });
  assert.deepEqual(shown(whole["output"] as unknown[]), expected);
});

test("trap 21 (full added/delta/done ladder, sequence_number, output_index, ids): a text, as the provider tells it", () => {
  const { events, types } = write([start, ...textBlock, ended("stop"), finish]);
  assert.deepEqual(types, [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
  ]);
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, at) => at),
  );
  assert.deepEqual(events[4], {
    type: "response.output_text.delta",
    sequence_number: 4,
    item_id: "msg_1_0",
    output_index: 0,
    content_index: 0,
    delta: "Hel",
    logprobs: [],
  });
});

test("trap 21 (filled final output array and token details): response.completed holds the whole answer", () => {
  const { response, last } = write([start, ...thinkingBlock, ...textBlock, ...callBlock, ended("calls"), finish]);
  const final = lastResponse(last);
  assert.deepEqual(final.output, [
    { type: "reasoning", id: "rs_1_0", summary: [{ type: "summary_text", text: "Hm." }] },
    {
      type: "message",
      id: "msg_1_1",
      status: "completed",
      role: "assistant",
      content: [{ type: "output_text", text: "Hello", annotations: [], logprobs: [] }],
    },
    { type: "function_call", id: "fc_1_2", status: "completed", call_id: "c1", name: "look", arguments: '{"a":1}' },
  ]);
  assert.deepEqual(final.usage, {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 3, cache_write_tokens: 2 },
    output_tokens: 10,
    output_tokens_details: { reasoning_tokens: 6 },
    total_tokens: 20,
  });
  assert.equal(final.status, "completed");
  assert.equal(response?.output_text, "Hello", "the official client adds up the same");
  assert.deepEqual(response?.output, final.output);
});

test("the ladders of thinking, calls, free text and refusals are the provider's", () => {
  const custom = [open({ kind: "call", id: "c2", name: "shell", isFreeText: true }), delta("ls"), end];
  const refusal = [open({ kind: "refusal" }), delta("No."), end];
  const { types } = write([start, ...thinkingBlock, ...callBlock, ...custom, ...refusal, ended("stop"), finish]);
  assert.deepEqual(types.slice(2, -1), [
    "response.output_item.added",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.content_part.added",
    "response.refusal.delta",
    "response.refusal.done",
    "response.content_part.done",
    "response.output_item.done",
  ]);
});

test("texts that follow each other are parts of one message; what comes between divides them", () => {
  const output = outputOf([start, ...textBlock, ...textBlock, ...callBlock, ...textBlock, ended("calls"), finish]);
  assert.deepEqual(
    output.map((item) => (item.type === "message" ? item.content.length : item.type)),
    [2, "function_call", 1],
  );
});

test("citations become annotations when their text is whole, its whole length where no place is told", () => {
  const citation = { url: "https://a.example", title: "A" };
  const events = [
    open({ kind: "text" }),
    { kind: "block-citation", choice: 0, citation } as const,
    delta("Hello"),
    end,
  ];
  const { types, last } = write([start, ...events, ended("stop"), finish]);
  assert.equal(types.at(-5), "response.output_text.annotation.added");
  const annotation = { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 5 };
  const [message] = lastResponse(last).output;
  assert.deepEqual(message?.type === "message" && message.content[0], {
    type: "output_text",
    text: "Hello",
    annotations: [annotation],
    logprobs: [],
  });
});

test("opaque state of another provider goes out in a reasoning item, also where thinking has no text", () => {
  const opaque = { issuer: "anthropic-messages", value: "EqQB" } as const;
  const events = [open({ kind: "thinking" }), { kind: "block-opaque", choice: 0, opaque } as const, end];
  const [item] = outputOf([start, ...events, ended("stop"), finish]);
  const encrypted_content = wrapOpaque(opaque);
  assert.deepEqual(item, { type: "reasoning", id: "rs_1_0", summary: [], encrypted_content });
});

test("trap 13 (a carrier for thought signatures): the state of a call or a text is an item right behind it", () => {
  const state = { kind: "block-opaque", choice: 0, opaque: { issuer: "gemini-generate", value: "C" } } as const;
  const withState = (block: ReplyEvent[]): ReplyEvent[] => [...block.slice(0, -1), state, end];
  const events = [start, ...withState(callBlock), ...withState(textBlock), ...textBlock, ended("calls"), finish];
  const types = outputOf(events).map(({ type }) => type);
  assert.deepEqual(types, ["function_call", "reasoning", "message", "reasoning", "message"]);
});

test("trap 20 (argument-less calls): no arguments are an empty object, also for who adds up the deltas", () => {
  const { events } = write([start, open({ kind: "call", id: "c1", name: "now" }), end, ended("calls"), finish]);
  const parts = events.flatMap((event) => (event.type === "response.function_call_arguments.delta" ? event.delta : []));
  assert.deepEqual(parts, ["{}"]);
});

test("ids keep the rules: at most 64 characters, no two alike, made up where the provider has none", () => {
  for (const id of ["", "chatcmpl-x", "resp_" + "a".repeat(50), "odd/id:".repeat(30)]) {
    const calls = [...callBlock, ...callBlock, open({ kind: "call", id: "", name: "now" }), end];
    const { response } = write([{ ...start, id }, ...textBlock, ...calls, ended("calls"), finish]);
    const ids = [
      response?.id,
      ...(response?.output ?? []).flatMap((item) => [item.id, "call_id" in item && item.call_id]),
    ];
    const told = ids.filter((one) => typeof one === "string");
    assert.equal(new Set(told).size, told.length);
    for (const one of told) assert.match(one, /^[\w-]{1,64}$/);
    assert.match(response?.id ?? "", /^resp_/);
  }
});

const endRows = [
  ["stop", "completed", null],
  ["calls", "completed", null],
  ["pause", "completed", null],
  ["length", "incomplete", { reason: "max_output_tokens" }],
  ["refusal", "incomplete", { reason: "content_filter" }],
] as const;
for (const [reason, status, details] of endRows) {
  test(`trap 12 (length is incomplete with a reason): an end by ${reason} is ${status}`, () => {
    const { last, types } = write([start, ...textBlock, ended(reason), finish]);
    assert.equal(types.at(-1), `response.${status}`);
    assert.equal(lastResponse(last).status, status);
    assert.deepEqual(lastResponse(last).incomplete_details, details);
    assert.equal(lastResponse(last).usage?.total_tokens, 20, "trap 8: also an incomplete one has its counts");
  });
}

test("trap 12: what an answer was cut in is incomplete, as its last event and its own tell; what is before is whole", () => {
  const freeText = [open({ kind: "call", id: "c2", name: "shell", isFreeText: true }), delta("ls"), end];
  for (const last of [textBlock, callBlock, freeText]) {
    for (const [reason, status] of [
      ["length", "incomplete"],
      ["refusal", "incomplete"],
      ["calls", "completed"],
    ] as const) {
      const told = write([start, ...textBlock, ...callBlock, ...last, ended(reason), finish]);
      const statusOf = (item: ResponseOutputItem): unknown => (item as { status?: string }).status;
      const done = told.events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
      assert.deepEqual(done.map(statusOf), ["completed", "completed", status]);
      assert.deepEqual(lastResponse(told.last).output, done);
    }
  }
});

test("a call that came whole is told as such where the answer fails behind it", () => {
  const error: ReplyEvent = { kind: "error", error: { message: "Broken", type: undefined, code: undefined } };
  const { types, last } = write([start, ...callBlock, error]);
  assert.deepEqual(types.slice(-2), ["response.output_item.done", "response.failed"]);
  assert.match(JSON.stringify(lastResponse(last).output), /"status":"completed"/);
});

test("a refusal in words is a whole answer", () => {
  const { last } = write([start, open({ kind: "refusal" }), delta("No."), end, ended("refusal"), finish]);
  assert.equal(lastResponse(last).status, "completed");
});

test("trap 8 (hold response.completed until the stream ends): it comes with the usage, behind the reason", () => {
  const writer = createStreamWriter(asked);
  for (const event of [start, ...textBlock]) writer.write(event);
  assert.doesNotMatch(writer.write(ended("stop")), /response\.completed/);
  assert.match(writer.write(finish), /"input_tokens":10/);
});

test("unknown counts are 0, never null: strict clients refuse a response without them", () => {
  const { last } = write([start, ...textBlock, ended("stop"), { kind: "finish", usage: undefined }]);
  assert.equal(lastResponse(last).usage?.total_tokens, 0);
});

test("logprobs: with each delta, and of the whole text where it is done", () => {
  const tokenOf = (token: string) => ({
    token,
    logprob: -0.5,
    bytes: [72],
    alternatives: [{ token: "B", logprob: -2 }],
  });
  const wireOf = (token: string): object => ({
    token,
    logprob: -0.5,
    bytes: [72],
    top_logprobs: [{ token: "B", logprob: -2, bytes: [] }],
  });
  const said = (text: string, token: string): ReplyEvent => ({
    kind: "block-delta",
    choice: 0,
    text,
    logprobs: [tokenOf(token)],
  });
  const { events, response } = write([
    start,
    open({ kind: "text" }),
    said("Hel", "Hel"),
    said("", "x"),
    delta("lo"),
    end,
    ended("stop"),
    finish,
  ]);
  const logprobsOf = (type: string): unknown[] =>
    events.flatMap((event) => (event.type === type && "logprobs" in event ? [event.logprobs] : []));
  assert.deepEqual(logprobsOf("response.output_text.delta"), [[wireOf("Hel")], [wireOf("x")], []]);
  const all = [wireOf("Hel"), wireOf("x")];
  assert.deepEqual(logprobsOf("response.output_text.done"), [all]);
  const content = [{ type: "output_text", text: "Hello", annotations: [], logprobs: all }];
  assert.deepEqual(response?.output[0]?.type === "message" && response.output[0].content, content);
});

const errorRows = [
  [{ message: "Broken", type: "api_error", code: "overloaded" }, "server_error"],
  [{ message: "Slow down", type: "rate_limit_error", code: undefined }, "rate_limit_exceeded"],
  [{ message: "Bad", type: undefined, code: "invalid_prompt" }, "invalid_prompt"],
] as const;
for (const [error, code] of errorRows) {
  test(`trap 22 (a failure after 200 is the caller's own error event): response.failed with code ${code}`, () => {
    const { last, types } = write([start, ...textBlock.slice(0, -1), { kind: "error", error }]);
    assert.equal(types.at(-1), "response.failed");
    assert.equal(types.includes("response.completed"), false);
    const { status, error: told, output } = lastResponse(last);
    assert.equal(status, "failed");
    assert.deepEqual(told, { code, message: error.message });
    assert.equal(output[0]?.type === "message" && output[0].status, "incomplete");
    assert.match(JSON.stringify(output), /"Hello"/, "what came stays");
  });
}

test("an answer that fails before it starts still has a response to fail", () => {
  const { types } = write([{ kind: "error", error: { message: "Broken", type: undefined, code: undefined } }]);
  assert.deepEqual(types, ["response.created", "response.in_progress", "response.failed"]);
});

test("what is open when a call fails stays as far as it came", () => {
  const error = { kind: "error", error: { message: "Broken", type: undefined, code: undefined } } as const;
  const custom = open({ kind: "call", id: "c2", name: "shell", isFreeText: true });
  assert.match(
    JSON.stringify(outputOf([start, ...callBlock.slice(0, 2), error])),
    /"incomplete".*"arguments":"{\\"a\\""/,
  );
  assert.match(JSON.stringify(outputOf([start, custom, delta("ls"), error])), /"incomplete".*"input":"ls"/);
  assert.match(JSON.stringify(outputOf([start, ...thinkingBlock.slice(0, 2), error])), /"text":"Hm"/);
});

test("a response repeats the settings of its request, and says that nothing is stored", () => {
  const request = {
    model: "m",
    input: "Hi",
    instructions: "Be brief.",
    tools: [{ type: "function", name: "look", parameters: {}, strict: true }],
    tool_choice: "required",
    parallel_tool_calls: false,
    temperature: 0.5,
    max_output_tokens: 9,
    metadata: { a: "b" },
    text: { format: { type: "json_object" }, verbosity: "low" },
    reasoning: { effort: "low" },
    store: true,
  };
  const { events, last } = write([start, ...textBlock, ended("stop"), finish], request);
  for (const event of [events[0], last]) {
    const { input: _input, model: _model, ...settings } = request;
    const { model, ...told } = lastResponse(event);
    assert.equal(model, "m");
    assert.partialDeepStrictEqual(told, {
      ...settings,
      reasoning: { effort: "low", summary: null },
      store: false,
    } as object);
    assert.equal("input" in told, false);
  }
});

// Every field that the official client's type demands, so that a new one there is noticed here.
type Demanded = { [Name in keyof Response as object extends Pick<Response, Name> ? never : Name]: true };
const demanded: Record<keyof Omit<Demanded, "output_text">, true> = {
  id: true,
  access_programs: true,
  created_at: true,
  error: true,
  incomplete_details: true,
  instructions: true,
  metadata: true,
  model: true,
  object: true,
  output: true,
  parallel_tool_calls: true,
  temperature: true,
  tool_choice: true,
  tools: true,
  top_p: true,
};

test("a whole reply is the response that the last event of its stream holds, with every field that clients demand", (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: 1_700_000_001_000 });
  const events = [start, ...thinkingBlock, ...textBlock, ...callBlock, ended("calls"), finish];
  const reply: Reply = foldReply(events);
  const whole = writeReply(reply, asked);
  assert.deepEqual(JSON.parse(JSON.stringify(whole)), lastResponse(write(events).last));
  for (const name of Object.keys(demanded)) assert.ok(name in whole, name);
  const { createdAtSeconds: _, ...undated } = reply;
  assert.equal(writeReply(undated, asked)["created_at"], 1_700_000_001);
});

test("the format has one choice: what belongs to others is left out", () => {
  const other = textBlock.map((event) => ({ ...event, choice: 1 }) as ReplyEvent);
  assert.deepEqual(outputOf([start, ...textBlock, ...other, ended("stop"), finish]).length, 1);
});
