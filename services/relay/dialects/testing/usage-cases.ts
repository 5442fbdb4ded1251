import type { Units } from "#shared/money/pricing.ts";
import { upstreamDialects } from "../conversions.ts";
import { emptyTally, type Tally, type UpstreamDialectName } from "../dialect.ts";
import { createEventCursor } from "../event-cursor.ts";
import { envelopeOf, tallyReaderOf } from "./reading.ts";

export type Case = {
  name: string;
  dialect: UpstreamDialectName;
  /** An answer that comes whole, or the data of its events; a text stands for data that is not JSON. */
  whole?: object;
  events?: (object | string)[];
  buckets: Units;
};

export const textChunk = { choices: [{ index: 0, delta: { content: "Hello there" }, finish_reason: null }] };
export const endChunk = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
const chatStream = (usage: object): (object | string)[] => [textChunk, endChunk, { choices: [], usage }, "[DONE]"];
const chatWhole = (usage: object): object => ({
  choices: [{ index: 0, message: { content: "Hello there" }, finish_reason: "stop" }],
  usage,
});
export const chat = (name: string, usage: object, buckets: Units): Case => ({
  name,
  dialect: "openai-chat",
  whole: chatWhole(usage),
  events: chatStream(usage),
  buckets,
});
export const plain = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
export const plainBuckets: Units = { inputTokens: 100n, outputTokens: 20n };
export const chatEvents = (name: string, events: (object | string)[], buckets = plainBuckets): Case => ({
  name,
  dialect: "openai-chat",
  events,
  buckets,
});

export const responses = (name: string, usage: object, buckets: Units, output: object[] = []): Case => {
  const response = { status: "completed", output, usage };
  return {
    name,
    dialect: "openai-responses",
    whole: response,
    events: [{ type: "response.completed", response }],
    buckets,
  };
};

const started = (usage: object) => ({
  type: "message_start",
  message: { id: "m", model: "c", content: [], usage },
});
const spoken = [
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello there" } },
  { type: "content_block_stop", index: 0 },
];
const stopped = (usage?: object) => [
  { type: "message_delta", delta: { stop_reason: "end_turn" }, ...(usage && { usage }) },
  { type: "message_stop" },
];
export const messages = (name: string, first: object, last: object, buckets: Units): Case => ({
  name,
  dialect: "anthropic-messages",
  events: [started(first), ...spoken, ...stopped(last)],
  buckets,
});

export const gemini = (name: string, usageMetadata: object, buckets: Units, more: object = {}): Case => {
  const content = { parts: [{ text: "Hello there" }] };
  const last = {
    candidates: [{ content, finishReason: "STOP", ...more }],
    usageMetadata,
    modelVersion: "gemini-3-pro",
  };
  return { name, dialect: "gemini-generate", whole: last, events: [{ candidates: [{ content }] }, last], buckets };
};

const marked = "behind a byte order mark";
const framings: Record<string, (data: string, type: string) => string> = {
  "as most send it": (data) => `data: ${data}\n\n`,
  "with CRLF": (data) => `data: ${data}\r\n\r\n`,
  [marked]: (data) => `data: ${data}\n\n`,
  "without a space": (data) => `data:${data}\n\n`,
  "behind comments": (data) => `: keep-alive\n\n: again\ndata: ${data}\n\n`,
  "with ids, retries and names": (data, type) => `id: 7\nretry: 10\nevent: ${type}\ndata: ${data}\n\n`,
  "in several lines of data": (data) => `data: ${data.replaceAll(/,(?=")/g, ",\ndata: ")}\n\n`,
  "in several lines of data with CRLF": (data) => `data: ${data.replaceAll(/,(?=")/g, ",\r\ndata: ")}\r\n\r\n`,
};

const bucketsOf = ({ counted, usage }: Tally): Units =>
  Object.fromEntries(Object.entries({ ...counted, ...usage }).filter(([, count]) => count > 0n));

/** Reads a stream from its bytes, which come in pieces of this size. */
function readStream(dialect: UpstreamDialectName, bytes: Buffer, size: number): Tally {
  const tally = emptyTally();
  const tap = upstreamDialects[dialect].createTap(envelopeOf(), (error) => error);
  const cursor = createEventCursor(1_000_000);
  for (let at = 0; at < bytes.length; at += size) {
    cursor.push(bytes.subarray(at, at + size));
    for (let event = cursor.next(); event; event = cursor.next()) tap.read(event, tally);
  }
  return tally;
}

/** What is read of an answer that comes whole, and of its stream in every framing; `way`: which of them. */
export function* readEveryWay({ dialect, whole, events = [] }: Case): Generator<{ way: string; buckets: Units }> {
  if (whole) yield { way: "whole", buckets: bucketsOf(tallyReaderOf(dialect)(whole) ?? emptyTally()) };
  if (events.length === 0) return;
  for (const [framing, frame] of Object.entries(framings)) {
    const text: string[] = events.map((data) =>
      typeof data === "string" ? `data: ${data}\n\n` : frame(JSON.stringify(data), String(Object.hasOwn(data, "type"))),
    );
    const bytes = Buffer.from(`${framing === marked ? "\u{feff}" : ""}${text.join("")}`);
    for (const size of [bytes.length, 7]) {
      yield { way: `${framing}, pieces of ${size}`, buckets: bucketsOf(readStream(dialect, bytes, size)) };
    }
  }
}
