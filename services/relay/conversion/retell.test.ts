import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createTranslator } from "./convert.ts";
import { clients, providers, upstreamDialects } from "../dialects/conversions.ts";
import { emptyTally, type DialectName, type StreamTap, type Tally } from "../dialects/dialect.ts";
import { readStreamEvent } from "../dialects/sse.ts";
import { createTextLikeness } from "../dialects/text-likeness.ts";
import { envelopeOf } from "../testing/fakes.ts";
import { startStream } from "../testing/pumped.ts";

type Cell = { from: "openai-chat" | "anthropic-messages"; to: DialectName };

const limits = { contextTokens: 200_000, maxOutputTokens: 64_000 };
const cells: Cell[] = [
  { from: "openai-chat", to: "anthropic-messages" },
  { from: "openai-chat", to: "openai-responses" },
  { from: "openai-chat", to: "openai-chat" },
  { from: "anthropic-messages", to: "openai-chat" },
  { from: "anthropic-messages", to: "openai-responses" },
];

function translatorOf({ from, to }: Cell): StreamTap {
  const [client, provider] = [clients[to], providers[from]];
  assert.ok(client && provider);
  const clean = <T>(error: T): T => error;
  const tap = upstreamDialects[from].createTap(envelopeOf({ stream: true }), clean);
  return createTranslator({
    conversion: { client, provider },
    asked: { model: "m", wantsStreamUsage: true },
    tap,
    clean,
    limits,
  });
}

type Seen = { told: string; tallies: Tally[]; end: string };

/** What is told of a stream and counted of it, event by event, as the pump does it, with or without skimming. */
function translate(cell: Cell, events: readonly string[], isSkimming: boolean): Seen & { read: number } {
  const tap = translatorOf(cell);
  const likeness = createTextLikeness(tap);
  const tally = emptyTally();
  const tallies: Tally[] = [];
  let [told, read] = ["", 0];
  for (const text of events) {
    const event = Buffer.from(text);
    const pieces: Buffer[] = [];
    if (!isSkimming || likeness.skim(event, 0, tally, pieces) === -1) {
      read += 1;
      const verdict = tap.read(readStreamEvent(event), tally);
      assert.notEqual(verdict, "pass", "what is said in other words does not pass itself");
      if (typeof verdict !== "string") pieces.push(verdict);
      if (isSkimming && typeof verdict !== "string") likeness.learn(event, 0, event.length);
      if (verdict === "end") break;
    }
    assert.ok(pieces.length <= 1);
    told += Buffer.concat(pieces).toString();
    tallies.push(structuredClone(tally));
  }
  return { told, tallies, end: tap.end(tally), read };
}

// Of each answer's own making: its time, and ids that a writer makes up.
const withoutTimes = (told: string): string =>
  told.replaceAll(/"(created\w*|completed_at)":\d+/g, '"$1":0').replaceAll(/_[0-9a-f-]{16,}/g, "_");

/** Checks that skimming changes nothing; gives how many events were read. */
function compare(cell: Cell, events: readonly string[]): number {
  const skimmed = translate(cell, events, true);
  const whole = translate(cell, events, false);
  assert.equal(withoutTimes(skimmed.told), withoutTimes(whole.told));
  assert.deepEqual(skimmed.tallies, whole.tallies);
  assert.equal(withoutTimes(skimmed.end), withoutTimes(whole.end));
  return skimmed.read;
}

const dataOf = (json: object): string => `data: ${JSON.stringify(json)}\n\n`;
const chunkOf = (delta: object, more: object = {}, finish: unknown = null): string =>
  dataOf({ id: "c1", created: 7, model: "gpt", choices: [{ index: 0, delta, finish_reason: finish }], ...more });
const eventOf = (type: string, fields: object = {}): string => `event: ${type}\n${dataOf({ type, ...fields })}`;
const deltaOf = (delta: object): string => eventOf("content_block_delta", { index: 0, delta });
const blockOf = (content_block: object): string => eventOf("content_block_start", { index: 0, content_block });
const blockEnd = eventOf("content_block_stop", { index: 0 });
const messageStart = eventOf("message_start", {
  message: { id: "msg_1", model: "claude", usage: { input_tokens: 3 } },
});
const messageEnd = [
  eventOf("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 9 } }),
  eventOf("message_stop"),
];
const chatEnd = [
  chunkOf({}, {}, "stop"),
  dataOf({ id: "c1", choices: [], usage: { prompt_tokens: 3, completion_tokens: 4 } }),
  "data: [DONE]\n\n",
];
const words = ["one", " two", " three", ' say "four"', " fünf", "😀\n", "\\seven", " eight"];

test("of deltas of a text only as many are read as tell that they are alike, whatever they are translated to", () => {
  for (const cell of cells) {
    const isChat = cell.from === "openai-chat";
    const deltas = words.map((text) => (isChat ? chunkOf({ content: text }) : deltaOf({ type: "text_delta", text })));
    const events = isChat ? [...deltas, ...chatEnd] : [messageStart, ...deltas, blockEnd, ...messageEnd];
    const others = events.length - deltas.length;
    // The first opens the text, two follow it.
    assert.equal(compare(cell, events) - others, 3, `${cell.from} on ${cell.to}`);
  }
});

test("thinking and the input of a call are retold as well, and each block is found to be another one", () => {
  const cell: Cell = { from: "openai-chat", to: "anthropic-messages" };
  const call = (fields: object, args: string) =>
    chunkOf({ tool_calls: [{ index: 0, ...fields, function: { ...fields, arguments: args } }] });
  const events = [
    ...words.map((text) => chunkOf({ reasoning_content: text })),
    ...words.map((text) => chunkOf({ content: text })),
    call({ id: "call_1", name: "look" }, ""),
    ...words.map((text) => call({}, text)),
    ...words.map((text) => chunkOf({ content: text })),
    ...chatEnd,
  ];
  assert.ok(compare(cell, events) <= 4 * 5 + 1 + chatEnd.length);
});

test("padding against being measured keeps no text from being retold; the id of a call does", () => {
  const cell: Cell = { from: "openai-chat", to: "anthropic-messages" };
  const padded = words.map((content, at) => chunkOf({ content }, { obfuscation: "x".repeat(9 - at) }));
  assert.equal(compare(cell, [...padded, ...chatEnd]) - chatEnd.length, 3);
  // Without an index, a fragment belongs to the call of its id. Of texts with escapes no other frame is learned.
  const fragments = ["c1", "c2", "c2", "c2", "c2", "c1"].map((id, at) =>
    chunkOf({ tool_calls: [{ id, function: { arguments: at < 2 ? `n${at}` : `"${at}"` } }] }),
  );
  compare(cell, [...fragments, ...chatEnd]);
});

test("places that count the characters before them count those of retold texts", () => {
  const annotations = [
    { type: "url_citation", url_citation: { url: "https://a.example", start_index: 60, end_index: 70 } },
  ];
  const texts = words.map((content) => chunkOf({ content }));
  const events = [...texts, chunkOf({ reasoning_content: "so" }), ...texts, chunkOf({ annotations }), ...chatEnd];
  for (const cell of cells.filter(({ from }) => from === "openai-chat")) compare(cell, events);
  const citation = { type: "web_search_result_location", url: "https://a.example", title: "A", cited_text: "two" };
  const cited = [
    ...words.map((text) => deltaOf({ type: "text_delta", text })),
    deltaOf({ type: "citations_delta", citation }),
  ];
  const second = [blockEnd, blockOf({ type: "text", text: "" }), ...cited, blockEnd];
  for (const cell of cells.filter(({ from }) => from !== "openai-chat")) {
    compare(cell, [messageStart, blockOf({ type: "text", text: "" }), ...cited, ...second, ...messageEnd]);
  }
});

test("of two texts that were the same so far, each is told for itself", () => {
  const both = ([text, thinking]: [string, string]) => deltaOf({ type: "text_delta", text, thinking });
  const pairs: [string, string][] = [
    ["a", "a"],
    ["b", "b"],
    ["c", "c"],
    ["d", "d"],
    ["e", "f"],
    ["g", "h"],
  ];
  for (const cell of cells.filter(({ from }) => from !== "openai-chat")) {
    compare(cell, [messageStart, ...pairs.map(both), blockEnd, ...messageEnd]);
  }
  const padded = ([content, pad]: [string, string]) => chunkOf({ content }, { pad });
  for (const cell of cells.filter(({ from }) => from === "openai-chat")) {
    compare(cell, [...pairs.map(padded), ...chatEnd]);
  }
});

test("free text within the JSON of a call's input is read to its end", () => {
  const pieces = ['{"input":"', "one", "two", "three", "four", '"', "}"];
  const fragments = pieces.map((partial_json) => deltaOf({ type: "input_json_delta", partial_json }));
  for (const name of ["look", "relay_text__look"]) {
    const block = blockOf({ type: "tool_use", id: "toolu_1", name, input: {} });
    compare(cells[3] as Cell, [messageStart, block, ...fragments, blockEnd, ...messageEnd]);
  }
});

test("through the pump a caller gets the same, wherever the chunks are cut", async () => {
  const cell: Cell = { from: "openai-chat", to: "anthropic-messages" };
  const events = [...words, ...words].map((content) => chunkOf({ content }));
  const bytes = Buffer.from([...events, ...chatEnd].join(""));
  const expected = translate(cell, [...events, ...chatEnd], false);
  for (const size of [1, 7, 100, 1_000, bytes.length]) {
    await using pumped = await startStream({ tap: translatorOf(cell) });
    for (let at = 0; at < bytes.length; at += size) pumped.give(bytes.subarray(at, at + size));
    pumped.end();
    assert.equal(withoutTimes(await pumped.received()), withoutTimes(expected.told), `in pieces of ${size}`);
    assert.deepEqual(pumped.tally, expected.tallies.at(-1));
  }
});

const anyText = fc.oneof(
  fc.constantFrom("", "a", "the", " quick", "é", "😀", '"', "\\", "\n", '{"input":"', '"}', "error", "stop"),
  fc.string({ unit: "binary", maxLength: 8 }),
);
const anyDelta = fc.oneof(
  { weight: 8, arbitrary: fc.record({ content: anyText }) },
  { weight: 3, arbitrary: fc.record({ reasoning_content: anyText }) },
  fc.tuple(anyText, anyText).map(([one, other]) => ({ reasoning_content: one, reasoning: other })),
  anyText.map((text) => ({ reasoning_content: text, reasoning: text })),
  fc.record({ role: fc.constant("assistant"), content: anyText }),
  fc.record({ refusal: anyText }),
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.nat(1), fc.constantFrom(undefined, "c1", "c2"), fc.constantFrom(undefined, "f"), anyText)
      .map(([index, id, name, text]) => ({ tool_calls: [{ index, id, function: { name, arguments: text } }] })),
  },
  fc.nat(9).map((start) => ({
    annotations: [{ type: "url_citation", url_citation: { url: "u", start_index: start, end_index: start + 2 } }],
  })),
);
const anyChatEvent = fc.oneof(
  {
    weight: 14,
    arbitrary: fc
      .tuple(anyDelta, fc.option(anyText, { freq: 3 }), fc.constantFrom(0, 0, 0, 1))
      .map(([delta, pad, index]) => dataOf({ choices: [{ index, delta }], ...(pad !== null && { pad }) })),
  },
  anyText.map((token) =>
    dataOf({ choices: [{ index: 0, delta: { content: token }, logprobs: { content: [{ token, logprob: -1 }] } }] }),
  ),
  fc.constantFrom("", "stop", "length").map((reason) => chunkOf({ content: "x" }, {}, reason)),
  anyText.map((error) => dataOf({ error, choices: [] })),
  fc.constantFrom(...chatEnd, ": ping\n\n", "data: {\n\n", "event: x\n\n"),
);
const anyBlock = fc.oneof(
  anyText.map((text) => blockOf({ type: "text", text })),
  anyText.map((thinking) => blockOf({ type: "thinking", thinking })),
  fc.constantFrom("look", "relay_text__look").map((name) => blockOf({ type: "tool_use", id: "t", name, input: {} })),
  fc.constantFrom("server_tool_use", "redacted_thinking").map((type) => blockOf({ type, data: "d" })),
);
const anyMessagesEvent = fc.oneof(
  { weight: 8, arbitrary: anyText.map((text) => deltaOf({ type: "text_delta", text })) },
  { weight: 4, arbitrary: anyText.map((thinking) => deltaOf({ type: "thinking_delta", thinking })) },
  { weight: 6, arbitrary: anyText.map((partial_json) => deltaOf({ type: "input_json_delta", partial_json })) },
  fc.tuple(anyText, anyText).map(([text, thinking]) => deltaOf({ type: "text_delta", text, thinking })),
  anyText.map((signature) => deltaOf({ type: "signature_delta", signature })),
  { weight: 3, arbitrary: anyBlock },
  fc.constantFrom(
    blockEnd,
    messageStart,
    ...messageEnd,
    eventOf("ping"),
    eventOf("error", { error: { message: "x" } }),
  ),
);

for (const cell of cells) {
  test(`whatever comes, skimming changes nothing that is told or counted of ${cell.from} on ${cell.to}`, () => {
    const anyEvent = cell.from === "openai-chat" ? anyChatEvent : anyMessagesEvent;
    const anyStream = fc.array(anyEvent, { maxLength: 40 });
    fc.assert(
      fc.property(anyStream, (events) => void compare(cell, events)),
      { numRuns: 1_000 },
    );
  });
}
