import assert from "node:assert/strict";
import { test } from "node:test";
import { type Cleaner, emptyTally, estimateTokens, type EventVerdict, type Tally } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { readEnvelope } from "./request.ts";
import { readStreamEvent } from "../sse.ts";
import { dialects } from "../index.ts";

const { createTap } = dialects["openai-responses"];

const envelope = readEnvelope(readJsonBody(Buffer.from('{"model":"m","stream":true}')), "m");
let sequence = 0;
const eventOf = (type: string, fields: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...fields })}\n\n`;
const response = { id: "resp_1", object: "response", model: "gpt-served", status: "in_progress", output: [] };
const usage = { input_tokens: 20, output_tokens: 7, total_tokens: 27 };
const created = eventOf("response.created", { response });
const delta = eventOf("response.output_text.delta", { delta: "12345678" });
const completed = eventOf("response.completed", { response: { ...response, status: "completed", usage } });
const keep: Cleaner = (error) => error;
const hide: Cleaner = (error) => ({ ...error, message: "[hidden]" });

type Watched = { verdicts: EventVerdict[]; tally: Tally; end: string };

function watch(events: string[], clean = keep): Watched {
  const tap = createTap(envelope, clean);
  const tally = emptyTally();
  const verdicts = events.map((event) => tap.read(readStreamEvent(Buffer.from(event)), tally));
  return { verdicts, tally, end: tap.end(tally) };
}

const dataOf = (event: string): Record<string, unknown> =>
  JSON.parse(event.slice(event.indexOf("data: ") + 6)) as Record<string, unknown>;

test("API spec, Streaming that stops partway: Responses: whole when `response.completed` arrived, with its counts", () => {
  const { verdicts, tally, end } = watch([created, delta, completed]);
  assert.deepEqual(verdicts, ["pass", "pass", "pass"]);
  assert.ok(tally.isComplete && tally.hasFinish && tally.hasContent && !tally.isFailed);
  assert.equal(tally.usage?.outputTokens, 7n);
  assert.equal(tally.contentTokens, estimateTokens("12345678"));
  assert.equal(tally.modelServed, "gpt-served");
  assert.equal(end, "");
});

test("trap 8 (read usage from response.incomplete as well): a limit's end is a whole answer", () => {
  const incomplete = eventOf("response.incomplete", { response: { ...response, status: "incomplete", usage } });
  const { tally } = watch([created, delta, incomplete]);
  assert.equal(tally.isComplete, true);
  assert.equal(tally.usage?.inputTokens, 20n);
});

test("trap 8 (read usage from response.failed as well): a failed answer is none, its counts stand", () => {
  const failed = eventOf("response.failed", {
    response: { ...response, status: "failed", error: { code: "server_error", message: "no" }, usage },
  });
  const { verdicts, tally, end } = watch([created, delta, failed]);
  assert.deepEqual(verdicts, ["pass", "pass", "pass"]);
  assert.ok(tally.isFailed && !tally.isComplete);
  assert.equal(tally.usage?.outputTokens, 7n);
  assert.equal(end, "", "it is told once");
});

test("an answer that its provider cancelled is none, its counts stand", () => {
  const cancelled = { ...response, status: "cancelled", usage };
  for (const type of ["response.cancelled", "response.done"]) {
    const { verdicts, tally, end } = watch([created, delta, eventOf(type, { response: cancelled })]);
    assert.deepEqual(verdicts, ["pass", "pass", "pass"]);
    assert.ok(tally.isFailed && !tally.isComplete);
    assert.equal(tally.usage?.outputTokens, 7n);
    assert.equal(dataOf(end)["type"], "response.failed");
  }
});

for (const [what, event] of [
  ["flat", eventOf("error", { code: "server_error", message: "broken", param: null })],
  ["nested", eventOf("error", { error: { type: "server_error", code: "server_error", message: "broken" } })],
  ["without a type", 'data: {"error":{"message":"broken"}}\n\n'],
] as const) {
  test(`an upstream error partway ends in response.failed, also where the upstream leaves that out: ${what}`, () => {
    const { verdicts, tally, end } = watch([created, delta, event]);
    assert.equal(verdicts[2], "pass");
    assert.equal(tally.isFailed, true);
    assert.match(end, /^event: response\.failed\ndata: /);
    const failed = dataOf(end);
    assert.equal(failed["type"], "response.failed");
    assert.equal(typeof failed["sequence_number"], "number");
    assert.deepEqual(failed["response"], {
      ...response,
      status: "failed",
      error: { code: "server_error", message: "broken" },
    });
  });
}

test("a gateway's response.done is the event that its status says", () => {
  const doneWith = (status: string) =>
    watch([created, delta, eventOf("response.done", { response: { ...response, status, usage } })]).tally;
  for (const status of ["completed", "incomplete"]) {
    const { isComplete, usage: told } = doneWith(status);
    assert.deepEqual([isComplete, told?.outputTokens], [true, 7n]);
  }
  const { isComplete, isFailed, usage: told } = doneWith("failed");
  assert.deepEqual([isComplete, isFailed, told?.outputTokens], [false, true, 7n]);
  assert.equal(watch([created, completed, eventOf("response.done", { response })]).tally.usage?.outputTokens, 7n);
});

test("a cut stream ends without response.completed and without any other event", () => {
  const { tally, end } = watch([created, delta]);
  assert.equal(tally.isComplete, false);
  assert.equal(end, "");
});

test("callers see no insides in errors within a stream, neither in the error nor in the failed response", () => {
  const failed = eventOf("response.failed", { response: { ...response, error: { code: "x", message: "key sk-1" } } });
  const error = eventOf("error", { code: "x", message: "key sk-1" });
  const told = watch([created, error, failed], hide).verdicts.slice(1).map(String);
  for (const text of told) {
    assert.match(text, /\[hidden\]/);
    assert.doesNotMatch(text, /sk-1/);
  }
  assert.match(watch([created, error], hide).end, /\[hidden\]/);
});

const contentRows: [string, string, string][] = [
  ["text", delta, "12345678"],
  ["a refusal", eventOf("response.refusal.delta", { delta: "1234" }), "1234"],
  ["arguments", eventOf("response.function_call_arguments.delta", { delta: "1234" }), "1234"],
  ["reasoning", eventOf("response.reasoning_text.delta", { delta: "1234" }), "1234"],
  ["a summary", eventOf("response.reasoning_summary_text.delta", { delta: "1234" }), "1234"],
  [
    "a call as it opens",
    eventOf("response.output_item.added", { item: { type: "function_call", name: "look" } }),
    "look",
  ],
  ["encrypted reasoning", eventOf("response.output_item.done", { item: { type: "reasoning" } }), ""],
  ["sound, not counted as text", eventOf("response.audio.delta", { delta: "UklGRg==" }), ""],
];
for (const [what, event, text] of contentRows) {
  test(`content is ${what}`, () => {
    const { tally } = watch([event]);
    assert.equal(tally.hasContent, true);
    assert.equal(tally.contentTokens, estimateTokens(text));
  });
}

test("opening events, empty deltas and comments are no content: an answer cut behind them is free", () => {
  const item = { type: "message", content: [] };
  const events = [
    created,
    ": keep-alive\n\n",
    eventOf("response.output_item.added", { item }),
    eventOf("response.output_text.delta", { delta: "" }),
    "data: [DONE]\n\n",
    "data: {half\n\n",
  ];
  const { verdicts, tally } = watch(events);
  assert.deepEqual(new Set(verdicts), new Set(["pass"]));
  assert.equal(tally.hasContent, false);
});

test("calls of the provider's tools are counted when they are done", () => {
  const item = { type: "web_search_call", status: "completed", action: { type: "search", query: "x" } };
  const { tally } = watch([
    eventOf("response.output_item.added", { item }),
    eventOf("response.output_item.done", { item }),
  ]);
  assert.deepEqual(tally.counted, { webSearches: 1n });
});

const done = (item: object): string => eventOf("response.output_item.done", { item });
const finished = (fields: object): string =>
  eventOf("response.completed", { response: { ...response, status: "completed", usage, ...fields } });

test("a container is counted once in an answer, however often its code ran", () => {
  const ran = (id: string) => done({ type: "code_interpreter_call", container_id: id, code: "1" });
  const { tally } = watch([created, ran("cntr_1"), ran("cntr_1"), ran("cntr_2")]);
  assert.deepEqual(tally.counted, { codeSessions: 2n });
});

test("what the provider tells of its tools at the end stands for what was seen of them", () => {
  const search = done({ type: "web_search_call", action: { type: "search" } });
  const image = done({ type: "image_generation_call", result: "aGk=" });
  const image_gen = {
    input_tokens: 60,
    input_tokens_details: { text_tokens: 20, image_tokens: 40 },
    output_tokens: 300,
    total_tokens: 360,
  };
  const tool_usage = { web_search: { num_requests: 1 }, image_gen };
  const cut = watch([created, search, search, image]).tally;
  assert.deepEqual(cut.counted, { webSearches: 2n, images: 1n });
  const { tally } = watch([created, search, search, image, finished({ tool_usage })]);
  const used = { ...tally.counted, ...tally.usage };
  assert.deepEqual([used.webSearches, used.images], [1n, 0n], "one search was free; images count by their tokens");
  assert.deepEqual([used.inputTokens, used.imageInputTokens, used.imageOutputTokens], [40n, 40n, 300n]);
  assert.equal(used.outputTokens, 7n);
  assert.equal(tally.toldTokens, 27n + 360n, "their tokens are not in the total of the model's");
});

test("an error within a stream is written anew also when only its code holds what callers must not see", () => {
  const hideCode: Cleaner = (error) => ({ ...error, code: "[hidden]" });
  const error = eventOf("error", { code: "key sk-1", message: "broken" });
  const told = String(watch([created, error], hideCode).verdicts[1]);
  assert.match(told, /"code":"\[hidden\]","message":"broken"/);
  assert.doesNotMatch(told, /sk-1/);
});

test("an SVG is written by a model of its own, whose tokens are in no other count", () => {
  const svg = (model: string) => ({
    model,
    input_tokens: 11,
    output_tokens: 40,
    reasoning_tokens: 30,
    total_tokens: 51,
  });
  const drawn = (model: string) => done({ type: "image_generation_call", result: "<svg/>", svg_usage: svg(model) });
  const { tally } = watch([created, drawn("gpt-drawer"), drawn("gpt-drawer"), finished({})]);
  const part = { inputTokens: 22n, outputTokens: 20n, reasoningTokens: 60n };
  assert.deepEqual(tally.byModel, [{ model: "gpt-drawer", usage: part }]);
  assert.deepEqual([tally.usage?.inputTokens, tally.usage?.outputTokens], [20n + 22n, 7n + 20n]);
  assert.equal(tally.usage?.reasoningTokens, 60n);
  assert.equal(tally.toldTokens, 27n + 102n);
});
