import assert from "node:assert/strict";
import { test } from "node:test";
import { createTranslator } from "./convert.ts";
import { clients, providers } from "../dialects/conversions.ts";
import { emptyTally, type DialectName, type Tally, type UpstreamDialectName } from "../dialects/dialect.ts";
import { readStreamEvent } from "../dialects/sse.ts";
import { failures } from "../failures.ts";
import { envelopeOf } from "../testing/fakes.ts";
import { startStream } from "../testing/pumped.ts";

const limits = { contextTokens: 200_000, maxOutputTokens: 64_000 };
const chunk = (choices: object[]): string => `data: ${JSON.stringify({ id: "c", model: "m", choices })}\n\n`;
const text = (index: number, content: string): string => chunk([{ index, delta: { content }, finish_reason: null }]);
const finish = (index: number): string => chunk([{ index, delta: {}, finish_reason: "stop" }]);
const done = "data: [DONE]\n\n";

/** What a caller of `to` gets of a stream, a chat stream unless said otherwise, and what the meter thinks of it. */
function translate(
  to: DialectName,
  events: string[],
  fields: object = {},
  from: UpstreamDialectName = "openai-chat",
): { told: string; end: string; tally: Tally } {
  const [client, provider] = [clients[to], providers[from]];
  assert.ok(client && provider);
  const clean = <T>(error: T): T => error;
  const translator = createTranslator({
    conversion: { client, provider },
    asked: { model: "m", wantsStreamUsage: true },
    envelope: envelopeOf({ stream: true, ...fields }),
    clean,
    limits,
  });
  const tally = emptyTally();
  let told = "";
  for (const event of events) {
    const verdict = translator.read(readStreamEvent(Buffer.from(event)), tally);
    if (typeof verdict !== "string") told += verdict.toString();
  }
  return { told, end: translator.end(tally), tally };
}

test("a whole stream is whole in the caller's dialect, for the caller and for the meter", () => {
  const { told, tally } = translate("openai-responses", [text(0, "Hi"), finish(0), done]);
  assert.match(told, /event: response\.completed/);
  assert.equal(tally.isComplete, true);
});

test("an answer that breaks its own format without an upstream's error is told in the API's words, and has failed for the ledger", () => {
  const { told, tally } = translate("openai-responses", [text(0, "Hi"), text(1, "Ho"), finish(0), done], { n: 2 });
  assert.match(told, /event: response\.failed/);
  assert.ok(told.includes(failures.upstream_invalid.message));
  assert.doesNotMatch(told, /response\.completed/);
  assert.deepEqual([tally.isFailed, tally.isComplete], [true, false]);
});

test("an upstream's own error keeps its words", () => {
  const error = `data: ${JSON.stringify({ error: { message: "broken there", type: "server_error", code: null } })}\n\n`;
  const { told, tally } = translate("openai-responses", [text(0, "Hi"), error]);
  assert.match(told, /response\.failed[^]*broken there/);
  assert.equal(tally.isFailed, true);
});

const event = (data: object, name?: string): string =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
const ofAnthropic = (type: string): [UpstreamDialectName, string] => [
  "anthropic-messages",
  event({ type: "error", error: { type, message: "words" } }, "error"),
];
const ofGemini = (code: number, status: string): [UpstreamDialectName, string] => [
  "gemini-generate",
  event({ error: { code, message: "words", status } }),
];
const ofResponses = (code: string | null, param: string | null = null): [UpstreamDialectName, string] => [
  "openai-responses",
  event({ type: "error", code, message: "words", param, sequence_number: 0 }, "error"),
];

// What an upstream reports within its stream, and `error.code` of the API spec's table Errors.
const errorsWithin: [[UpstreamDialectName, string], string][] = [
  [ofAnthropic("overloaded_error"), "service_unavailable"],
  [ofAnthropic("rate_limit_error"), "rate_limit_exceeded"],
  [ofAnthropic("invalid_request_error"), ""],
  [ofAnthropic("api_error"), "server_error"],
  [ofGemini(503, "UNAVAILABLE"), "service_unavailable"],
  [ofGemini(429, "RESOURCE_EXHAUSTED"), "rate_limit_exceeded"],
  [ofGemini(400, "INVALID_ARGUMENT"), ""],
  [ofGemini(500, "INTERNAL"), "server_error"],
  [ofResponses("context_length_exceeded"), "context_length_exceeded"],
  [ofResponses("529"), "service_unavailable"],
  [ofResponses(null), "server_error"],
];

test("API spec, Errors: All others | {error: {message: <string>, type: <string>, param: <string>, code: <string>}}, also within a converted stream", () => {
  for (const [[from, data], code] of errorsWithin) {
    const { told, end, tally } = translate("openai-chat", [data], {}, from);
    const { error } = JSON.parse((told + end).replace("data: ", "")) as { error: Record<string, unknown> };
    const { type, ...rest } = error;
    assert.deepEqual(rest, { message: "words", param: "", code }, data);
    assert.equal(typeof type, "string");
    assert.equal(tally.isFailed, true);
  }
});

test("the field that an upstream names within its stream is told in a converted one", () => {
  const [from, data] = ofResponses("invalid_value", "tools[0]");
  assert.match(translate("openai-chat", [data], {}, from).told, /"param":"tools\[0\]","code":"invalid_value"/);
});

test("API spec, Streaming that stops partway: Messages | No error arrives, whoever reports it", () => {
  for (const [[from, data]] of errorsWithin.filter(([[name]]) => name !== "anthropic-messages")) {
    const { told, end } = translate("anthropic-messages", [data], {}, from);
    assert.doesNotMatch(told + end, /error|words|message_stop/);
  }
});

test("API spec, Streaming that stops partway: a cut stream says nothing more to Messages and Responses callers", () => {
  for (const to of ["anthropic-messages", "openai-responses"] as const) {
    const { told, end } = translate(to, [text(0, "Hi")]);
    assert.doesNotMatch(told, /message_stop|response\.(completed|failed)|event: error/);
    assert.equal(end, "");
  }
});

test("through the pump a caller gets the same, wherever the chunks are cut", async () => {
  const [client, provider] = [clients["anthropic-messages"], providers["openai-chat"]];
  assert.ok(client && provider);
  const texts = ["one", " two", ' say "three"', " fünf", "😀\n", "\\six", " seven"].map((word) => text(0, word));
  const events = [...texts, finish(0), done];
  const expected = translate("anthropic-messages", events);
  const bytes = Buffer.from(events.join(""));
  for (const size of [1, 7, 100, 1_000, bytes.length]) {
    const tap = createTranslator({
      conversion: { client, provider },
      asked: { model: "m", wantsStreamUsage: true },
      envelope: envelopeOf({ stream: true }),
      clean: (error) => error,
      limits,
    });
    await using pumped = await startStream({ tap });
    for (let at = 0; at < bytes.length; at += size) pumped.give(bytes.subarray(at, at + size));
    pumped.end();
    assert.equal(await pumped.received(), expected.told, `in pieces of ${size}`);
    assert.deepEqual(pumped.tally, expected.tally);
  }
});
