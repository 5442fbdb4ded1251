import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createEventCursor, type EventCursor } from "./event-cursor.ts";
import { eventData, eventJson, EventTooLargeError } from "./sse.ts";

const limitBytes = 1_000_000;

/** Gives a cursor a chunk; the events that are complete now, as bytes. */
function push(cursor: EventCursor, chunk: Buffer): Buffer[] {
  cursor.push(chunk);
  const { bytes } = cursor;
  const events: Buffer[] = [];
  while (cursor.next()) events.push(bytes.subarray(cursor.start, cursor.end));
  return events;
}

function splitAll(chunks: Buffer[]): { events: Buffer[]; rest: Buffer } {
  const cursor = createEventCursor(limitBytes);
  const events = chunks.flatMap((chunk) => push(cursor, chunk));
  return { events, rest: cursor.rest() };
}

function cutAt(bytes: Buffer, places: number[]): Buffer[] {
  const edges = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
}

const bytewise = (bytes: Buffer): Buffer[] => Array.from(bytes, (byte) => Buffer.from([byte]));

/** The data of a stream by the words of the standard, line by line, with nothing in common with the splitter. */
function dataByTheStandard(stream: string): string[] {
  const dispatched: string[] = [];
  let data: string[] | undefined;
  for (const line of stream.split(/\r\n|\n/).slice(0, -1)) {
    if (line === "") {
      if (data) dispatched.push(data.join("\n"));
      data = undefined;
    } else if (line === "data" || line.startsWith("data:")) {
      data = [...(data ?? []), line.slice(5).replace(/^ /, "")];
    }
  }
  return dispatched;
}

const words = fc.oneof(
  fc.string({ unit: fc.constantFrom("a", "é", "漢", "😀", " ", ":", "{", '"', "data", "\\") }),
  fc.json(),
);
const fieldLines = fc.oneof(
  words.map((text) => `data: ${text}`),
  words.map((text) => `data:${text}`),
  words.map((text) => `: a comment, data: ${text}`),
  words.map((text) => `event: ${text}`),
  words.map((text) => `database: ${text}`),
  fc.constantFrom("data", "id: data", "retry: 10", "event: data"),
);
const lineEnds = fc.constantFrom("\n", "\r\n");
const streams = fc
  .array(fc.tuple(fc.array(fieldLines, { maxLength: 4 }), lineEnds), { maxLength: 6 })
  .map((events) => events.map(([lines, end]) => `${lines.map((line) => line + end).join("")}${end}`).join(""));
const tails = fc.constantFrom("", "data: half", "data: half\n", "data: half\r\n", "\r", "data: a\r\n\r");
const noise = fc.string({ unit: fc.constantFrom("\n", "\r", "\r\n", "data:", " ", "x", "é"), maxLength: 30 });

test("any split of the bytes gives the same events as one chunk, and events and rest together are the input", () => {
  const places = fc.array(fc.nat(), { maxLength: 12 });
  const bodies = fc.oneof(
    fc.tuple(streams, tails).map((parts) => parts.join("")),
    noise,
  );
  fc.assert(
    fc.property(bodies, places, (text, cuts) => {
      const bytes = Buffer.from(text);
      const whole = splitAll([bytes]);
      assert.deepEqual(Buffer.concat([...whole.events, whole.rest]), bytes);
      assert.deepEqual(splitAll(cutAt(bytes, cuts)), whole);
      assert.deepEqual(splitAll(bytewise(bytes)), whole);
    }),
    { numRuns: 1_000 },
  );
});

test("trap 33 (SSE: data: without a space, events split over reads, comments): data as the standard reads it", () => {
  fc.assert(
    fc.property(streams, tails, fc.array(fc.nat(), { maxLength: 8 }), (stream, tail, cuts) => {
      const { events } = splitAll(cutAt(Buffer.from(stream + tail), cuts));
      const data = events.map(eventData).filter((text) => text !== undefined);
      assert.deepEqual(data, dataByTheStandard(stream));
    }),
    { numRuns: 1_000 },
  );
});

test("every event keeps its own bytes, terminator included, whichever way lines end", () => {
  const events = ["data: a\n\n", "event: b\r\ndata: c\r\n\r\n", ": keep-alive\n\n", "data: é\ndata: 漢\n\r\n", "\n"];
  const { events: found, rest } = splitAll(bytewise(Buffer.from(`${events.join("")}data: `)));
  assert.deepEqual(found.map(String), events);
  assert.equal(rest.toString(), "data: ");
});

test("events that arrive whole are views of the chunk, not copies", () => {
  const chunk = Buffer.from("data: a\n\ndata: b\n\n");
  const [first, second] = push(createEventCursor(limitBytes), chunk);
  assert.equal(first?.buffer, chunk.buffer);
  assert.equal(second?.byteOffset, chunk.byteOffset + 9);
});

test("an event over the limit raises before more of it is kept; at the limit it does not", () => {
  const cursor = createEventCursor(10);
  assert.deepEqual(push(cursor, Buffer.from("data: a\n\n0123456789")).length, 1);
  assert.throws(() => push(cursor, Buffer.from("x")), EventTooLargeError);
  assert.throws(() => push(createEventCursor(10), Buffer.from("data: a\n\n01234567890")), EventTooLargeError);
});

test("a large event in many pieces is not copied for each of them, and keeps what it was", () => {
  const piece = Buffer.from("0123456789".repeat(100));
  const cursor = createEventCursor(4_000_000);
  const memories = new Set<ArrayBufferLike>();
  push(cursor, Buffer.from("data: "));
  for (let at = 0; at < 3_000; at += 1) {
    push(cursor, piece);
    if (at > 100) memories.add(cursor.rest().buffer);
  }
  const [event] = push(cursor, Buffer.from("\n\ndata: "));
  const before = cursor.rest();
  push(cursor, Buffer.concat([piece, Buffer.from("\n\n")]));
  assert.equal(event?.toString(), `data: ${piece.toString().repeat(3_000)}\n\n`);
  assert.equal(before.toString(), "data: ");
  assert.ok(memories.size < 8, `${memories.size} copies`);
});

for (const [what, unit] of [
  ["values", "[],"],
  ["lines", "data:\n"],
  ["lines of other fields", "x\r\n"],
] as const) {
  test(`an event of more ${what} than can be read while others wait raises before it is read`, () => {
    const event = Buffer.from(`data: [${unit.repeat(500_001)}0]\n\n`);
    assert.throws(() => push(createEventCursor(event.length), event), EventTooLargeError);
  });
}

test("the limit is of one event: a long stream of small events passes in chunks of any size", () => {
  const cursor = createEventCursor(32);
  const bytes = Buffer.from("data: 0123456789\n\n".repeat(1_000));
  const events = cutAt(bytes, [500, 7_777, 12_000]).flatMap((chunk) => push(cursor, chunk));
  assert.equal(events.length, 1_000);
});

const dataRows = [
  ["one line", "data: {}\n\n", "{}"],
  ["behind an event line", "event: ping\ndata: {}\n\n", "{}"],
  ["without a space", "data:{}\n\n", "{}"],
  ["only the first space is taken away", "data:  {}\n\n", " {}"],
  ["several lines are joined by line feeds", "data: {\ndata: }\n\n", "{\n}"],
  ["CRLF", "event: a\r\ndata: {}\r\n\r\n", "{}"],
  ["spaces behind the JSON, as providers pad it", 'data: {"a":1}   \n\n', '{"a":1}   '],
  ["the word data inside another field first", "event: data\ndata: {}\n\n", "{}"],
  ["data in the value of data", "data: some data: here\n\n", "some data: here"],
  ["an empty value", "data:\n\n", ""],
  ["a name without a colon", "data\n\n", ""],
  ["multi-byte characters", "data: é漢😀\n\n", "é漢😀"],
  ["behind the byte order mark of a stream", "\u{feff}data: {}\n\n", "{}"],
  ["behind a byte order mark, in several lines", "\u{feff}data: {\ndata: }\n\n", "{\n}"],
  ["a comment has none", ": data: {}\n\n", undefined],
  ["a longer name is another field", "database: {}\n\n", undefined],
  ["an event without data", "event: ping\n\n", undefined],
  ["a blank line", "\n", undefined],
] as const;

for (const [what, event, data] of dataRows) {
  test(`the data of an event: ${what}`, () => assert.equal(eventData(Buffer.from(event)), data));
}

test("data that is not JSON reads as nothing instead of raising", () => {
  assert.equal(eventJson(undefined), undefined);
  assert.equal(eventJson("[DONE]"), undefined);
  assert.equal(eventJson('{"a":'), undefined);
  assert.deepEqual(eventJson('{"a":1}  '), { a: 1 });
  assert.deepEqual(eventJson('\u{feff}{"a":1}'), { a: 1 }, "a byte order mark is none of the text");
});
