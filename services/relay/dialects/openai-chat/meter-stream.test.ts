import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTally, type Envelope, estimateTokens, type EventVerdict, type Tally } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { readEnvelope } from "./request.ts";
import { readStreamEvent } from "../sse.ts";
import { dialects } from "../index.ts";

const { createTap } = dialects["openai-chat"];

const envelopeOf = (request: object): Envelope => {
  const body = Buffer.from(JSON.stringify({ model: "m", messages: [], stream: true, ...request }));
  return readEnvelope(readJsonBody(body), "m");
};
const asking = envelopeOf({ stream_options: { include_usage: true } });
const notAsking = envelopeOf({});

const chunkOf = (fields: object): string =>
  `data: ${JSON.stringify({ object: "chat.completion.chunk", ...fields })}\n\n`;
const deltaOf = (delta: object, finishReason: unknown = null, index = 0): string =>
  chunkOf({ model: "gpt-served", choices: [{ index, delta, finish_reason: finishReason }] });
const usage = { prompt_tokens: 20, completion_tokens: 7, total_tokens: 27 };
const usageChunk = chunkOf({ model: "gpt-served", choices: [], usage });
const done = "data: [DONE]\n\n";

function watch(events: string[], envelope: Envelope = asking): { verdicts: EventVerdict[]; tally: Tally } {
  const tap = createTap(envelope, (error) => error);
  const tally = emptyTally();
  const verdicts = events.map((event) => tap.read(readStreamEvent(Buffer.from(event)), tally));
  return { verdicts, tally };
}

const answer = [deltaOf({ role: "assistant", content: "" }), deltaOf({ content: "12345678" }), deltaOf({}, "stop")];

test("trap 8 (usage can arrive in a chunk after finish_reason): the answer is whole at [DONE], with usage", () => {
  const { verdicts, tally } = watch([...answer, usageChunk, done]);
  assert.deepEqual(verdicts, ["pass", "pass", "pass", "pass", "pass"]);
  assert.ok(tally.isComplete && tally.hasFinish && tally.hasContent && !tally.isFailed);
  assert.equal(tally.usage?.inputTokens, 20n);
  assert.equal(tally.usage?.outputTokens, 7n);
  assert.equal(tally.contentTokens, estimateTokens("12345678"));
  assert.equal(tally.modelServed, "gpt-served");
});

test("trap 9 (strip the extra chunk when the client did not ask): the usage chunk is dropped, and still counted", () => {
  const { verdicts, tally } = watch([...answer, usageChunk, done], notAsking);
  assert.deepEqual(verdicts, ["pass", "pass", "pass", "drop", "pass"]);
  assert.equal(tally.usage?.outputTokens, 7n);
});

test("trap 9 (strip the extra chunk when the client did not ask): one without a list of choices is dropped as well", () => {
  for (const fields of [{ usage }, { choices: null, usage }]) {
    const { verdicts, tally } = watch([...answer, chunkOf(fields), done], notAsking);
    assert.deepEqual(verdicts, ["pass", "pass", "pass", "drop", "pass"]);
    assert.equal(tally.usage?.outputTokens, 7n);
  }
});

test("a usage chunk behind [DONE] is not counted, and dropped all the same", () => {
  const { verdicts, tally } = watch([...answer, done, usageChunk], notAsking);
  assert.deepEqual(verdicts, ["pass", "pass", "pass", "pass", "drop"]);
  assert.equal(tally.usage, undefined);
});

test("trap 9 (it must have an empty choices list): usage beside a choice passes also to who did not ask", () => {
  const finish = chunkOf({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage });
  const first = chunkOf({ choices: [], prompt_filter_results: [{ prompt_index: 0 }], usage: null });
  const { verdicts, tally } = watch([first, ...answer, finish, done], notAsking);
  assert.ok(!verdicts.includes("drop"));
  assert.equal(tally.usage?.outputTokens, 7n);
});

test("only an explicit include_usage of true counts as asking", () => {
  for (const options of [{ include_usage: false }, {}, null, { include_usage: "true" }, { include_usage: 1 }]) {
    const { verdicts } = watch([usageChunk], envelopeOf({ stream_options: options }));
    assert.deepEqual(verdicts, ["drop"], JSON.stringify(options));
  }
});

test("counts that grow with every chunk: the last one stands", () => {
  const grown = (completion: number): string =>
    chunkOf({ choices: [{ delta: { content: "x" } }], usage: { prompt_tokens: 20, completion_tokens: completion } });
  assert.equal(watch([grown(1), grown(2), grown(3), deltaOf({}, "stop")]).tally.usage?.outputTokens, 3n);
});

test("finish without [DONE]: the reason has passed, the end mark has not", () => {
  const { tally } = watch(answer);
  assert.equal(tally.hasFinish, true);
  assert.equal(tally.isComplete, false);
});

test("API spec, Streaming that stops partway: Chat completions. [DONE] without any finish_reason value is no whole answer", () => {
  for (const reason of [null, undefined, ""]) {
    const { tally } = watch([deltaOf({ content: "half" }, reason), done]);
    assert.equal(tally.hasFinish, false, `finish_reason ${JSON.stringify(reason)}`);
    assert.equal(tally.isComplete, false);
  }
});

test("a stream has one end mark, its upstream's own or one of ours, and none behind an error", () => {
  const endOf = (...events: string[]): string => {
    const tap = createTap(asking, (error) => error);
    const tally = emptyTally();
    for (const event of events) tap.read(readStreamEvent(Buffer.from(event)), tally);
    return tap.end(tally);
  };
  const half = deltaOf({ content: "half" });
  assert.deepEqual([endOf(half), endOf(...answer)], [done, done]);
  assert.deepEqual([endOf(half, done), endOf(...answer, done)], ["", ""]);
  assert.equal(endOf(half, chunkOf({ error: { message: "no" } })), "");
});

for (const reason of ["stop", "length", "tool_calls", "content_filter", "function_call"]) {
  test(`finish_reason ${reason} makes an answer whole`, () => {
    assert.equal(watch([deltaOf({ content: "x" }), deltaOf({}, reason), done]).tally.isComplete, true);
  });
}

test("trap 22 (upstream failure after 200 must not be logged as success): an error passes on and fails the answer", () => {
  const error = chunkOf({ error: { message: "overloaded", type: "server_error", param: null, code: null } });
  const { verdicts, tally } = watch([deltaOf({ content: "half" }), error, done]);
  assert.deepEqual(verdicts, ["pass", "pass", "pass"]);
  assert.equal(tally.isFailed, true);
  assert.equal(tally.isComplete, false);
  assert.equal(watch([...answer, error, done]).tally.isComplete, false, "also behind a finish_reason");
  assert.equal(watch([chunkOf({ error: null, choices: [] })]).tally.isFailed, false, "an error of null is none");
});

test("trap 17 (reasoning_content from chat upstreams): thinking that passed is content and counted", () => {
  const { tally } = watch([deltaOf({ role: "assistant", content: null }), deltaOf({ reasoning_content: "12345678" })]);
  assert.equal(tally.hasContent, true);
  assert.equal(tally.contentTokens, estimateTokens("12345678"));
});

test("trap 20 (every parallel call kept): fragments of interleaved calls and choices are all counted", () => {
  const start = (index: number): object => ({
    tool_calls: [{ index, id: "call", function: { name: "look", arguments: "" } }],
  });
  const fragment = (index: number): object => ({ tool_calls: [{ index, function: { arguments: '{"a"' } }] });
  const { tally } = watch([
    deltaOf({ role: "assistant", content: null, ...start(0) }),
    deltaOf(fragment(0)),
    deltaOf(start(1), null, 1),
    deltaOf(fragment(1), null, 1),
  ]);
  assert.equal(tally.hasContent, true);
  assert.equal(tally.contentTokens, 2 * estimateTokens('look{"a"'));
});

test("the role chunk, a comment and a keep-alive are no content: an answer cut behind them is free", () => {
  const opening = deltaOf({ role: "assistant", content: "", refusal: null });
  const { verdicts, tally } = watch([": keep-alive\n\n", opening, "data: \n\n", "event: ping\n\n"]);
  assert.deepEqual(verdicts, ["pass", "pass", "pass", "pass"]);
  assert.equal(tally.hasContent, false);
});

test("trap 33 (SSE: data: without a space, CRLF, multi-byte text): read alike", () => {
  const events = [
    'data:{"choices":[{"delta":{"content":"漢字"}}]}\r\n\r\n',
    'data:{"choices":[{"delta":{},"finish_reason":"stop"}]}\r\n\r\n',
  ];
  const { tally } = watch([...events, "data:[DONE]\r\n\r\n"]);
  assert.equal(tally.contentTokens, estimateTokens("漢字"));
  assert.equal(tally.isComplete, true);
});

test("what is not JSON, or not of the shape, passes untouched and raises nothing", () => {
  const odd = ["data: {half\n\n", "data: 7\n\n", "data: null\n\n", "data: []\n\n", 'data: {"choices":7}\n\n'];
  const odder = [
    'data: {"choices":[null,7,{"delta":"x"}]}\n\n',
    'data: {"choices":[{"delta":{"tool_calls":[null]}}]}\n\n',
  ];
  const { verdicts, tally } = watch([...odd, ...odder], notAsking);
  assert.deepEqual(new Set(verdicts), new Set(["pass"]));
  assert.equal(tally.contentTokens, 0);
});

test("trap 32 (price by the service tier named in the response): a stream names it in its chunks", () => {
  const chunk = chunkOf({ model: "gpt-served", service_tier: "priority", choices: [] });
  assert.equal(watch([chunk, ...answer, done]).tally.serviceTier, "priority");
  assert.equal(watch([...answer, done]).tally.serviceTier, undefined);
  const counts = chunkOf({ choices: [], usage: { ...inTotal, service_tier: "priority" } });
  assert.equal(watch([...answer, counts, done]).tally.serviceTier, "priority", "Mistral's, in its counts");
});

test("an error that is an object of its own, as Mistral's and vLLM's are, is one within a stream too", () => {
  const error = chunkOf({ object: "error", message: "Too many", type: "rate_limited", param: null, code: "1300" });
  const { verdicts, tally } = watch([...answer.slice(0, 1), error, done]);
  assert.equal(tally.isFailed, true);
  const told = { message: "Too many", type: "rate_limited", param: "", code: "1300" };
  assert.equal(String(verdicts[1]), `data: ${JSON.stringify({ error: told })}\n\n`, "as callers know errors");
});

const inTotal = { prompt_tokens: 40, completion_tokens: 7, total_tokens: 109 };

test("reasoning that only the total tells is counted for a model that is known to count so", () => {
  const events = [...answer, chunkOf({ choices: [], usage: inTotal }), done];
  const outputWith = (...quirks: "reasoning-in-total"[]) => {
    const tap = createTap(asking, (error) => error, new Set(quirks));
    const tally = emptyTally();
    for (const event of events) tap.read(readStreamEvent(Buffer.from(event)), tally);
    return [tally.usage?.outputTokens, tally.usage?.reasoningTokens];
  };
  assert.deepEqual(outputWith("reasoning-in-total"), [7n, 62n]);
  assert.deepEqual(outputWith(), [7n, 0n]);
  const alike = createTap(asking, (error) => error, new Set(["reasoning-in-total"])).createAlike?.();
  const tally = emptyTally();
  for (const event of events) alike?.read(readStreamEvent(Buffer.from(event)), tally);
  assert.equal(tally.usage?.reasoningTokens, 62n, "of one that is made alike, too");
});

test("reasoning that is more than the completion is none of it, and a model may be known to count so always", () => {
  const outputWith = (completion: number, reasoning: number, ...quirks: "reasoning-beside-completion"[]) => {
    const usage = {
      prompt_tokens: 9,
      completion_tokens: completion,
      total_tokens: 9 + completion,
      completion_tokens_details: { reasoning_tokens: reasoning },
    };
    const tap = createTap(asking, (error) => error, new Set(quirks));
    const tally = emptyTally();
    for (const event of [...answer, chunkOf({ choices: [], usage }), done]) {
      tap.read(readStreamEvent(Buffer.from(event)), tally);
    }
    return [tally.usage?.outputTokens, tally.usage?.reasoningTokens];
  };
  // Vercel's gateway, gemini-2.5-flash: it billed 27 tokens of output for these.
  assert.deepEqual(outputWith(2, 25), [2n, 25n]);
  assert.deepEqual(outputWith(25, 25), [0n, 25n]);
  assert.deepEqual(outputWith(40, 25), [15n, 25n]);
  assert.deepEqual(outputWith(40, 25, "reasoning-beside-completion"), [40n, 25n]);
  assert.deepEqual(outputWith(40, 0, "reasoning-beside-completion"), [40n, 0n]);
});

test("counts told while choices still run are running ones, those behind the last of them are not", () => {
  const early = chunkOf({ choices: [{ index: 0, delta: { content: "1234" }, finish_reason: null }], usage });
  const ofFirst = estimateTokens("1234");
  assert.equal(watch([early]).tally.runningAt, ofFirst);
  assert.equal(watch([early, deltaOf({ content: "12345678" })]).tally.runningAt, ofFirst, "text came behind them");
  assert.equal(watch([early, ...answer, done]).tally.runningAt, ofFirst, "nothing was told at the end");
  assert.equal(watch([early, ...answer, usageChunk, done]).tally.runningAt, undefined);
  const last = chunkOf({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage });
  assert.equal(watch([early, last]).tally.runningAt, undefined, "beside the finish_reason");
  const two = envelopeOf({ n: 2 });
  assert.equal(watch([early, last], two).tally.runningAt, ofFirst, "one of two has ended");
  assert.equal(watch(answer).tally.runningAt, undefined, "none were told");
  const grown = { ...usage, completion_tokens: 8, total_tokens: 28 };
  const later = (counts: object) =>
    chunkOf({ choices: [{ index: 0, delta: { content: "12345678" }, finish_reason: null }], usage: counts });
  assert.equal(
    watch([early, later(grown)]).tally.runningAt,
    ofFirst + estimateTokens("12345678"),
    "they hold for the text so far",
  );
  assert.equal(
    watch([early, later(usage)]).tally.runningAt,
    ofFirst,
    "counts that stand still hold for what they counted",
  );
});

test("what a gateway tells of its counts beside an error partway is what is charged", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
  const error = { code: 502, message: "Provider disconnected" };
  const broken = chunkOf({ error, choices: [{ index: 0, delta: { content: "" }, finish_reason: "error" }], usage });
  const { tally } = watch([...answer, broken]);
  assert.deepEqual([tally.isFailed, tally.usage?.inputTokens, tally.usage?.outputTokens], [true, 9n, 3n]);
});
