import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Cleaner, emptyTally, type Envelope, estimateTokens, type EventVerdict, type Tally } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { readGoogleError } from "../google-error.ts";
import { pathOf, upstreamHeaders } from "./request.ts";
import { readStreamEvent } from "../sse.ts";
import { upstreamDialects } from "../conversions.ts";
import { tallyReaderOf } from "../testing/reading.ts";

const { createTap } = upstreamDialects["gemini-generate"];
const readReply = tallyReaderOf("gemini-generate");

const envelope: Envelope = {
  body: readJsonBody(Buffer.from("{}")),
  model: "m",
  answer: "events",
  outputCap: undefined,
  choices: 1,
  units: {},
  priceFields: {},
  wantsStreamUsage: true,
};
const event = (chunk: unknown): string => `data: ${JSON.stringify(chunk)}\r\n\r\n`;
const chunkOf = (parts: unknown[], ending: object = {}, usage: object = {}): object => ({
  candidates: [{ content: { parts, role: "model" }, index: 0, ...ending }],
  usageMetadata: { promptTokenCount: 9, totalTokenCount: 9, ...usage },
  modelVersion: "gemini-served",
  responseId: "r1",
});

function watch(events: string[], clean: Cleaner = (error) => error): { verdicts: EventVerdict[]; tally: Tally } {
  const tap = createTap(envelope, clean);
  const tally = emptyTally();
  const verdicts = events.map((one) => tap.read(readStreamEvent(Buffer.from(one)), tally));
  assert.equal(tap.end(tally), "");
  return { verdicts, tally };
}

const stop = { finishReason: "STOP" };

test("a stream is whole when it ends behind a finishReason; its counts are cumulative and the last ones hold", () => {
  const first = event(chunkOf([{ text: "12345678" }], {}, { candidatesTokenCount: 2, totalTokenCount: 11 }));
  const last = event(chunkOf([{ text: "" }], stop, { candidatesTokenCount: 7, totalTokenCount: 16 }));
  const running = watch([first]).tally;
  assert.ok(running.hasContent && !running.hasFinish && !running.isComplete);
  const { verdicts, tally } = watch([first, last]);
  assert.deepEqual(verdicts, ["pass", "pass"]);
  assert.ok(tally.hasFinish && tally.hasContent && !tally.isFailed);
  assert.equal(tally.usage?.outputTokens, 7n);
  assert.equal(tally.contentTokens, estimateTokens("12345678"));
  assert.equal(tally.modelServed, "gemini-served");
});

test("a stream of several candidates is whole when each of them has ended", () => {
  const both = { candidates: [{ index: 0, ...stop, content: { parts: [{ text: "a" }] } }, { index: 1 }] };
  assert.equal(watch([event(both)]).tally.hasFinish, false);
  assert.equal(watch([event(both), event({ candidates: [{ index: 1, ...stop }] })]).tally.hasFinish, true);
});

test("a blocked prompt is a whole answer without content", () => {
  const blocked = { promptFeedback: { blockReason: "SAFETY" }, usageMetadata: { promptTokenCount: 4 } };
  const { tally } = watch([event(blocked)]);
  assert.ok(tally.hasFinish && !tally.hasContent);
  assert.equal(readReply(blocked)?.usage?.inputTokens, 4n);
});

test("trap 22 (failure after 200): an error in a stream fails it and comes cleaned", () => {
  const error = { error: { code: 503, message: "overloaded at host-7", status: "UNAVAILABLE" } };
  const { verdicts, tally } = watch([event(error)]);
  assert.deepEqual(verdicts, ["pass"]);
  assert.ok(tally.isFailed);
  const cleaned = watch([event(error)], (one) => ({ ...one, message: "overloaded" })).verdicts[0];
  assert.equal(String(cleaned), 'data: {"error":{"message":"overloaded","status":"UNAVAILABLE"}}\n\n');
  assert.ok(watch([event([error])]).tally.isFailed);
});

test("calls, thoughts and pictures are content", () => {
  const parts = [{ functionCall: { name: "f", args: {} } }, { text: "x", thought: true }, { inlineData: { data: "" } }];
  for (const part of parts) assert.ok(readReply(chunkOf([part]))?.hasContent, JSON.stringify(part));
  for (const part of [{ text: "" }, { text: "", thoughtSignature: "s" }, {}, null]) {
    assert.equal(readReply(chunkOf([part]))?.hasContent, false, JSON.stringify(part));
  }
  assert.ok((readReply(chunkOf([{ functionCall: { name: "abcd", args: { key: 1 } } }]))?.contentTokens ?? 0) >= 3);
});

test("a whole answer is complete; a body without candidates is none", () => {
  const tally = readReply(chunkOf([{ text: "hi" }], stop, { candidatesTokenCount: 1, totalTokenCount: 10 }));
  assert.ok(tally?.isComplete && tally.hasFinish && tally.hasContent);
  for (const body of [undefined, null, "x", {}, { candidates: 1 }, { error: {} }]) {
    assert.equal(readReply(body), undefined);
  }
});

test("errors are read as an object and as a list, with the reason that the status does not tell", () => {
  const error = { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT" };
  const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }];
  assert.deepEqual(readGoogleError({ error: { ...error, details } }), {
    message: "API key not valid.",
    type: "INVALID_ARGUMENT",
    code: "API_KEY_INVALID",
  });
  assert.equal(readGoogleError([{ error }])?.code, "INVALID_ARGUMENT");
  for (const body of [undefined, {}, { error: {} }, [], [{}], "x"]) assert.equal(readGoogleError(body), undefined);
});

test("the path names model and kind of answer, and a name cannot leave its place in it", () => {
  assert.equal(pathOf("gemini-x", false), "/v1beta/models/gemini-x:generateContent");
  assert.equal(pathOf("gemini-x", true), "/v1beta/models/gemini-x:streamGenerateContent?alt=sse");
  assert.equal(pathOf("tunedModels/a b", false), "/v1beta/tunedModels/a%20b:generateContent");
  assert.equal(pathOf("m?key=1#x", false), "/v1beta/models/m%3Fkey%3D1%23x:generateContent");
  assert.deepEqual(upstreamHeaders("secret"), ["x-goog-api-key", "secret"]);
});

test("anything an upstream sends never throws", () => {
  fc.assert(
    fc.property(fc.anything(), fc.jsonValue(), (body, chunk) => {
      readReply(body);
      readGoogleError(body);
      watch([event(chunk), event({ candidates: chunk }), event({ candidates: [{ content: { parts: [chunk] } }] })]);
    }),
  );
});

test("the tier that served the answer is read, by either of the names that it has", () => {
  const tierOf = (usage: object): string | undefined =>
    watch([event(chunkOf([{ text: "x" }], stop, usage))]).tally.serviceTier;
  assert.equal(tierOf({ serviceTier: "flex" }), "flex");
  assert.equal(tierOf({ serviceTier: "priority", trafficType: "ON_DEMAND" }), "priority");
  assert.equal(tierOf({ serviceTier: "unspecified" }), undefined);
  assert.deepEqual(
    ["ON_DEMAND_FLEX", "ON_DEMAND_PRIORITY", "ON_DEMAND", "PROVISIONED_THROUGHPUT"].map((trafficType) =>
      tierOf({ trafficType }),
    ),
    ["flex", "priority", undefined, undefined],
  );
  assert.equal(readReply(chunkOf([{ text: "x" }], stop, { serviceTier: "flex" }))?.serviceTier, "flex");
});

test("queries of a search that grounded an answer are counted, also where later chunks tell them again", () => {
  const grounded = (...webSearchQueries: string[]) => ({ ...stop, groundingMetadata: { webSearchQueries } });
  const { tally } = watch([
    event(chunkOf([{ text: "x" }], { groundingMetadata: { webSearchQueries: ["a"] } })),
    event(chunkOf([{ text: "y" }], grounded("a", "b"))),
    event(chunkOf([], grounded("a", "b"))),
  ]);
  assert.deepEqual(tally.counted, { webSearches: 2n });
  assert.deepEqual(watch([event(chunkOf([{ text: "x" }], stop))]).tally.counted, {});
});

test("counts of a chunk without an ending are running ones", () => {
  const text = event(chunkOf([{ text: "1234" }], {}, { candidatesTokenCount: 1 }));
  assert.equal(watch([text]).tally.runningAt, estimateTokens("1234"));
  const last = event(chunkOf([{ text: "1234" }], stop, { candidatesTokenCount: 2 }));
  assert.equal(watch([text, last]).tally.runningAt, undefined);
});
