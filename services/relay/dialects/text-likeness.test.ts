import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { emptyTally, type EventVerdict, type StreamTap, type Tally } from "./dialect.ts";
import { dialects } from "./index.ts";
import { readJsonBody } from "./json/request-body.ts";
import { readStreamEvent } from "./sse.ts";
import { copyOf, createTextLikeness } from "./text-likeness.ts";

const envelopeOf = (choices: number) => {
  const body = Buffer.from(JSON.stringify({ model: "m", messages: [], stream: true, n: choices }));
  return dialects["openai-chat"].readEnvelope(readJsonBody(body), "m");
};
const createMessagesTap = (): StreamTap => dialects["anthropic-messages"].createTap(envelopeOf(1), (error) => error);
const chatTap = (choices = 1): StreamTap => dialects["openai-chat"].createTap(envelopeOf(choices), (error) => error);

type Seen = { verdicts: EventVerdict[]; tallies: Tally[]; read: number };

/** Watches a stream as the pump does, with or without the likeness. */
function watch(events: readonly string[], tap: StreamTap, isSkimming: boolean): Seen {
  const likeness = createTextLikeness(tap);
  const tally = emptyTally();
  const seen: Seen = { verdicts: [], tallies: [], read: 0 };
  for (const text of events) {
    const event = Buffer.from(text);
    const end = isSkimming ? likeness.skim(event, 0, tally) : -1;
    assert.ok(end === -1 || end === event.length, "an event is skimmed as a whole");
    if (end === -1) {
      seen.read += 1;
      const verdict = tap.read(readStreamEvent(event), tally);
      seen.verdicts.push(verdict);
      if (isSkimming && verdict === "pass") likeness.learn(event, 0, event.length);
    } else seen.verdicts.push("pass");
    seen.tallies.push(structuredClone(tally));
  }
  return seen;
}

/** Checks that skimming changes nothing; gives how many events were read. */
function compare(events: readonly string[], createTap: () => StreamTap): number {
  const skimmed = watch(events, createTap(), true);
  const whole = watch(events, createTap(), false);
  assert.deepEqual({ ...skimmed, read: 0 }, { ...whole, read: 0 });
  return skimmed.read;
}

const dataOf = (json: object): string => `data: ${JSON.stringify(json)}\n\n`;
const chunkOf = (delta: object, finishReason: unknown = null, more: object = {}): string =>
  dataOf({ id: "c1", model: "gpt", choices: [{ index: 0, delta, finish_reason: finishReason }], usage: null, ...more });
const deltaOf = (delta: object, index = 0): string =>
  `event: content_block_delta\n${dataOf({ type: "content_block_delta", index, delta })}`;

test("of chat deltas that differ in their text only two are read", () => {
  const texts = ["one", "two", " three", "", "vier é", "😀", "seven"];
  assert.equal(
    compare(
      texts.map((content) => chunkOf({ content })),
      chatTap,
    ),
    2,
  );
});

test("of chat deltas that are padded against being measured only two are read", () => {
  const padded = ["a", "bcd", "ef", "ghij"].map((content, at) =>
    chunkOf({ content }, null, { pad: "x".repeat(7 - at) }),
  );
  assert.equal(compare(padded, chatTap), 2);
});

test("of Messages deltas that differ in their text only two are read, in each block", () => {
  const texts = ["one", "two", "three", "four"].map((text) => deltaOf({ type: "text_delta", text }));
  const thoughts = ["five", "six", "seven"].map((thinking) => deltaOf({ type: "thinking_delta", thinking }, 1));
  assert.equal(compare([...texts, ...thoughts], createMessagesTap), 4);
});

test("a text with escapes is counted as what it means; one whose escapes are none of JSON's is read", () => {
  const texts = ["one", "two", 'say "so"', "line\nline", "back\\slash", "\u0007\ud800", "three"];
  const events = texts.map((content) => chunkOf({ content }));
  assert.equal(compare(events, chatTap), 2);
  const broken = String.raw`\x`;
  const more = ["\\n", "\\u00e9", broken, "\\u12", "\\"].map((raw) => chunkOf({ content: "@" }).replace("@", raw));
  assert.equal(compare([...events, ...more], chatTap), 2 + 3);
});

test("what is no content but differs alone is not taken for it, be it by chance as long as the content", () => {
  const events = ["abc", "def", "much longer than that"].map((pad) => chunkOf({ content: "xyz" }, null, { pad }));
  assert.equal(compare(events, chatTap), 3);
});

test("the end, counts, errors and other choices are read where texts are alike before them", () => {
  const deltas = ["one", "two", "three"].map((content) => chunkOf({ content }));
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
  const rest = [chunkOf({}, "stop"), dataOf({ model: "gpt", choices: [], usage }), "data: [DONE]\n\n"];
  assert.equal(compare([...deltas, ...rest], chatTap), 5);
  assert.equal(compare([...deltas, dataOf({ error: { message: "broken" } })], chatTap), 3);
  const finished = ["stop", "length", "x".repeat(9)].map((reason) => chunkOf({ content: "a" }, reason));
  assert.equal(compare([...deltas, ...finished], chatTap), 5);
});

test("a stream that only seems alike is soon left alone", () => {
  const tap = chatTap();
  let read = 0;
  const counting: StreamTap = { ...tap, read: (event, tally) => ((read += 1), tap.read(event, tally)) };
  const likeness = createTextLikeness({ ...tap, createAlike: () => counting });
  for (let at = 0; at < 1_000; at += 1) {
    const event = Buffer.from(chunkOf({}, null, { note: `n${at}` }));
    likeness.learn(event, 0, event.length);
  }
  assert.ok(read < 100, `${read} probes`);
});

test("events that are repeated word for word cost nothing of what learning may", () => {
  const same = Array.from({ length: 400 }, () => chunkOf({ content: "so" }));
  assert.equal(compare([...same, chunkOf({ content: "one" }), chunkOf({ content: "two" })], chatTap), 401);
});

test("texts with escapes do not keep a stream from learning of its next block", () => {
  const escaped = Array.from({ length: 400 }, (_, at) => chunkOf({ content: `${at}\n` }));
  const thoughts = ["one", "two", "three", "four"].map((text) => chunkOf({ reasoning_content: text }));
  assert.equal(compare([...escaped, ...thoughts], chatTap), 402);
});

test("what a stream may spend on learning grows with what was spared", () => {
  const alike = Array.from({ length: 300 }, (_, at) => chunkOf({ content: `n${at}` }));
  const unlike = Array.from({ length: 300 }, (_, at) => chunkOf({}, null, { note: `n${at}` }));
  const thoughts = Array.from({ length: 100 }, (_, at) => chunkOf({ reasoning_content: `n${at}` }));
  const answer = [...alike, ...unlike, ...thoughts, ...alike, ...thoughts];
  // Nothing is learned of the first thoughts any more; the events behind them have paid for the second.
  assert.equal(compare(answer, chatTap), 2 + 300 + 100 + 2);
});

test("events cut short are not skimmed", () => {
  const likeness = createTextLikeness(chatTap());
  for (const content of ["one", "two"]) {
    const learned = Buffer.from(chunkOf({ content }));
    likeness.learn(learned, 0, learned.length);
  }
  const event = Buffer.from(chunkOf({ content: "three" }));
  const tally = emptyTally();
  for (let end = 0; end < event.length; end += 1) assert.equal(likeness.skim(event.subarray(0, end), 0, tally), -1);
  assert.deepEqual(tally, emptyTally());
  assert.equal(likeness.skim(event, 0, tally), event.length);
});

test("a tap to which texts mean more is never tried", () => {
  const { read, end } = chatTap();
  const events = ["one", "two", "three"].map((content) => chunkOf({ content }));
  assert.equal(watch(events, { read, end }, true).read, 3);
});

const textsOf = (deltas: object[]): string[] => deltas.map((delta) => deltaOf(delta));

test("names of fields are no texts: one may become that of a field which means something", () => {
  const named = (name: string) => dataOf({ [name]: "k", choices: [{ index: 0, delta: { content: name } }] });
  compare(["one", "two", "error", "x"].map(named), chatTap);
  const overLines = (name: string) => named(name).replaceAll('":', '"\ndata: :');
  compare(["one", "two", "error", "x"].map(overLines), chatTap);
});

test("a model told as an empty name is as good as none, also where the events behind it are skimmed", () => {
  const texts = ["one", "two", "three"].map((content) => dataOf({ choices: [{ index: 0, delta: { content } }] }));
  const nameless = dataOf({ model: "", service_tier: "", choices: [] });
  const events = [...texts, nameless, ...texts];
  compare(events, chatTap);
});

test("trying the tap leaves nothing behind in it: what it did not read has not ended", () => {
  const ended = ["a", "b", "c", "d"].map((index) =>
    dataOf({ choices: [{ index, delta: { content: "x" }, finish_reason: "stop" }] }),
  );
  compare(ended, () => chatTap(4));
});

test("a delta of two texts, of which one is empty, is content all the same", () => {
  const deltas = [
    { text: "one", thinking: "" },
    { text: "", thinking: "two" },
    { text: "three", thinking: "" },
  ];
  compare(textsOf(deltas), createMessagesTap);
  const tally = emptyTally();
  createMessagesTap().read(readStreamEvent(Buffer.from(deltaOf({ text: "one", thinking: "" }))), tally);
  assert.ok(tally.hasContent);
});

test("what stands before the data does not change how the data is read", () => {
  const events = ["one", "two", "data"].map((id) => `id: "${id}"\n${chunkOf({ content: id }).replace("}]", "}\r]")}`);
  compare(events, chatTap);
});

test("a text longer than those that are learned is read", () => {
  const texts = ["one", "two", "x".repeat(4_096), "x".repeat(4_097)];
  assert.equal(
    compare(
      texts.map((content) => chunkOf({ content })),
      chatTap,
    ),
    3,
  );
});

test("what is kept of events is theirs alone, not a place in memory that they share with what is gone", () => {
  const event = Buffer.from(chunkOf({ content: "one" }));
  assert.equal(copyOf(event).buffer.byteLength, event.length);
  assert.deepEqual(copyOf(event), event);
});

const anyText = fc.oneof(
  fc.constantFrom("", "a", "the", " quick", "é", "😀", '"', "\\", "\n", "stop", "error", "data: [DONE]"),
  fc.string({ unit: "binary", maxLength: 12 }),
);
const anyDelta = fc.oneof(
  { weight: 6, arbitrary: fc.record({ content: anyText }) },
  fc.record({ reasoning_content: anyText }),
  fc.record({ role: fc.constant("assistant"), content: anyText }),
  fc.record({ content: anyText, refusal: anyText }),
  fc.record({ tool_calls: fc.tuple(fc.record({ index: fc.nat(2), function: fc.record({ arguments: anyText }) })) }),
);
const anyChatEvent = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .tuple(anyDelta, fc.option(anyText), fc.nat(1), fc.constantFrom("pad", "fill", "error"))
      .map(([delta, pad, index, name]) =>
        dataOf({ choices: [{ index, delta, finish_reason: null }], ...(pad !== null && { [name]: pad }) }),
      ),
  },
  fc.constantFrom(null, "", "stop", "length").map((reason) => chunkOf({ content: "x" }, reason)),
  anyText.map((error) => dataOf({ error, choices: [] })),
  anyText.map((model) => dataOf({ model, service_tier: model, choices: [] })),
  fc.nat(9).map((count) => dataOf({ choices: [], usage: { prompt_tokens: count, completion_tokens: count } })),
  fc.constantFrom(": ping\n\n", "data: [DONE]\n\n", "data: {\n\n", "event: x\n\n"),
);
const anyMessagesEvent = fc.oneof(
  { weight: 8, arbitrary: anyText.map((text) => deltaOf({ type: "text_delta", text })) },
  anyText.map((thinking) => deltaOf({ type: "thinking_delta", thinking })),
  anyText.map((partial_json) => deltaOf({ type: "input_json_delta", partial_json })),
  fc.tuple(anyText, anyText).map(([type, text]) => deltaOf({ type, text })),
  anyText.map((text) => dataOf({ type: "content_block_start", index: 0, content_block: { type: "text", text } })),
  anyText.map((model) => dataOf({ type: "message_start", message: { model, usage: { input_tokens: 3 } } })),
  anyText.map((reason) =>
    dataOf({ type: "message_delta", delta: { stop_reason: reason }, usage: { output_tokens: 4 } }),
  ),
  fc.tuple(anyText, anyText).map(([type, text]) => dataOf({ type, delta: { text } })),
  fc.constantFrom("message_stop", "error", "ping").map((type) => dataOf({ type, error: { message: "x" } })),
);
const runs = { numRuns: 2_000 };

test("whatever comes, skimming changes no verdict and no count of a chat stream", () => {
  const anyStream = fc.array(anyChatEvent, { maxLength: 40 });
  fc.assert(
    fc.property(anyStream, fc.constantFrom(1, 2), (events, n) => void compare(events, () => chatTap(n))),
    runs,
  );
});

test("whatever comes, skimming changes no verdict and no count of a Messages stream", () => {
  const anyStream = fc.array(anyMessagesEvent, { maxLength: 40 });
  fc.assert(
    fc.property(anyStream, (events) => void compare(events, createMessagesTap)),
    runs,
  );
});
