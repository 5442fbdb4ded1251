import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createEventCursor, type EventCursor } from "./event-cursor.ts";
import { eventData, eventJson } from "./sse.ts";

/** JSON as text; nothing for an event without it. */
const textOf = (json: unknown): string[] => (json === undefined ? [] : [JSON.stringify(json)]);

/** The data that a cursor reads from chunks, each as it is read. */
function readAll(cursor: EventCursor, chunks: Buffer[]): string[] {
  return chunks.flatMap((chunk) => {
    const read: string[] = [];
    cursor.push(chunk);
    for (let event = cursor.next(); event; event = cursor.next()) read.push(...textOf(event.json));
    return read;
  });
}

/** The same by the words of the standard and JSON.parse, an event at a time. */
const parsed = (events: readonly string[]): string[] =>
  events.flatMap((event) => textOf(eventJson(eventData(Buffer.from(event)))));

function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const edges = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
}

// Words that stand elsewhere in the events too, and whatever JSON writes in its own way.
const texts = fc.oneof(
  fc.string({ unit: fc.constantFrom("a", "é", "漢", "😀", '"', "\\", "\n", "\u0001", "{", "text", " ") }),
  fc.constantFrom("content", "stop", "m", "", "probe 0", "\\u0041", "data: ", "0"),
);
const counts = fc.oneof(fc.nat(), fc.constantFrom(0, 1.5, -1, 1e21, 9_007_199_254_740_992, null));
const bodies: ((text: string, other: string, count: unknown) => unknown)[] = [
  (content, obfuscation) => ({ id: "m", choices: [{ index: 0, delta: { content } }], obfuscation }),
  (content, model, created) => ({ model, created, choices: [{ delta: { role: "m", content }, logprobs: [created] }] }),
  (delta, item_id, sequence_number) => ({ type: "response.output_text.delta", sequence_number, item_id, delta }),
  (text, kind, count) => ({ parts: [{ text }, { text: kind }], usageMetadata: { total: count, prompt: count } }),
  (text) => ({ parts: [text], [text]: "text", text }),
  (text) => text,
  (_text, _other, count) => count,
];
const styles: ((value: unknown) => string)[] = [
  (value) => JSON.stringify(value),
  (value) => JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, " "),
  // As Python writes it: no character above ASCII.
  (value) =>
    JSON.stringify(value).replaceAll(
      /[^\x20-\x7e]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
    ),
];
const frames: ((data: string) => string)[] = [
  (data) => `data: ${data}\n\n`,
  (data) => `event: data\r\ndata:${data}\r\n\r\n`,
  (data) => `id: 7\ndata: ${data}\ndata: \n\n`,
];
/** Streams whose events are mostly of one kind, with others and broken ones between them. */
const streams = fc
  .tuple(fc.constantFrom(...bodies), fc.constantFrom(...styles), fc.constantFrom(...frames))
  .chain(([body, style, frame]) => {
    const regular = fc.tuple(texts, texts, counts).map((values) => frame(style(body(...values))));
    const other = fc.oneof(
      fc.json().map((data) => `data: ${data}\n\n`),
      fc.constantFrom("data: [DONE]\n\n", ": note\n\n", "data: {\n\n", 'data: {"text":"\\q"}\n\n', "\n"),
      fc.tuple(regular, fc.nat()).map(([event, at]) => `${event.slice(0, at % event.length).trimEnd()}\n\n`),
    );
    return fc.array(fc.oneof({ arbitrary: regular, weight: 8 }, { arbitrary: other, weight: 1 }), { maxLength: 30 });
  });

test("whatever differs between a stream's events, each is read as JSON.parse reads it", () => {
  fc.assert(
    fc.property(streams, fc.array(fc.nat(), { maxLength: 12 }), (events, places) => {
      const whole = Buffer.from(events.join(""));
      const separate = events.flatMap((event) => event.split(/(?<=\n\r?\n)/));
      assert.deepEqual(readAll(createEventCursor(1_000_000), cutAt(whole, places)), parsed(separate));
    }),
    { numRuns: 3_000 },
  );
});

const chatChunk = (content: string): string =>
  `data: {"id":"c","choices":[{"index":0,"delta":{"content":${content}},"finish_reason":null}]}\n\n`;

test("once two events have shown where they differ, the next ones are read into the same JSON", () => {
  const cursor = createEventCursor(1_000);
  const written = ['"a"', '"b"', '"c é 漢 😀"', String.raw`"\n\u00e9\""`];
  const read = written.map((text) => {
    cursor.push(Buffer.from(chatChunk(text)));
    const { json } = cursor.next() ?? {};
    return { json, text: JSON.stringify(json) };
  });
  assert.deepEqual(
    read.map(({ text }) => text),
    parsed(written.map(chatChunk)),
  );
  assert.notEqual(read[1]?.json, read[2]?.json);
  assert.equal(read[2]?.json, read[3]?.json);
});

test("bytes that are no UTF-8 are read as they are without a shape", () => {
  const cursor = createEventCursor(1_000);
  const events = ["a", "b", "\xff\xc3", "\xe6\xbc", "\xf0\x9f\x98"].map((text) =>
    Buffer.from(chatChunk(`"${text}"`), "latin1"),
  );
  assert.deepEqual(
    readAll(cursor, events),
    events.map((event) => JSON.stringify(eventJson(eventData(event)))),
  );
});

const counted = (text: string, count: string): string => `data: {"id":"c","text":"${text}","count":${count}}\n\n`;
const oddRows = [
  ["a control character", counted("\u0001", "3")],
  ["a tab", counted("\t", "3")],
  ["an unknown escape", counted(String.raw`\q`, "3")],
  ["a text that does not end", counted("\\", "3")],
  ["a leading zero", counted("c", "03")],
  ["no digits", counted("c", "")],
  ["a sign", counted("c", "-3")],
  ["a fraction", counted("c", "3.5")],
  ["an exponent", counted("c", "3e2")],
  ["more digits than a double holds", counted("c", "12345678901234567890123")],
  ["another field behind", counted("c", '3,"error":"x"')],
  ["another field within", counted('c","count":7,"text":"d', "3")],
];

for (const [what, event = ""] of oddRows) {
  test(`a stream with a shape reads as JSON.parse: ${what}`, () => {
    const events = [counted("a", "1"), counted("b", "2"), event, counted("e", "9")];
    const chunks = events.map((text) => Buffer.from(text));
    assert.deepEqual(readAll(createEventCursor(1_000), chunks), parsed(events));
  });
}

test("a word that stands elsewhere, and in another spelling where it differs, makes no shape", () => {
  const events = [
    String.raw`data: {"id":"k","content":"b"}`,
    String.raw`data: {"id":"k","content":"\u0069d"}`,
    String.raw`data: {"zz":"k","content":"\u0069d"}`,
  ].map((event) => `${event}\n\n`);
  assert.deepEqual(readAll(createEventCursor(1_000), [Buffer.from(events.join(""))]), parsed(events));
});
