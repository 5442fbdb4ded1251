import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createTranslator } from "./convert.ts";
import { clients, providers, upstreamDialects } from "./dialects/conversions.ts";
import { emptyTally, type DialectName, type StreamTap, type UpstreamDialectName } from "./dialects/dialect.ts";
import { createEventCursor } from "./dialects/event-cursor.ts";
import type { BlockStart, ReplyEvent } from "./dialects/reply.ts";
import { readStreamEvent } from "./dialects/sse.ts";
import { envelopeOf } from "./testing/fakes.ts";

// An event that is like the ones before it is read into their JSON. Nobody may tell by what comes of it.

const asked = { model: "m", wantsStreamUsage: true, inputTokens: 9, request: {} };
const clean = <T>(error: T): T => error;

const words = fc.string({
  unit: fc.constantFrom("a", " ", "é", "漢", "😀", '"', "\\", "\n"),
  minLength: 1,
  maxLength: 9,
});
const tokensOf = (text: string) => {
  const bytes = [...Buffer.from(text)];
  return [{ token: text, logprob: -text.length, bytes, alternatives: [{ token: "z", logprob: -9, bytes: [122] }] }];
};
const starts: BlockStart[] = [
  { kind: "text" },
  { kind: "thinking" },
  { kind: "refusal" },
  { kind: "call", id: "call_1", name: "look" },
];
const blocks = fc.record({
  start: fc.constantFrom(...starts),
  texts: fc.array(words, { minLength: 1, maxLength: 12 }),
  hasTokens: fc.boolean(),
});
const replies = fc.array(blocks, { minLength: 1, maxLength: 3 }).map((all): ReplyEvent[] => [
  { kind: "start", id: "r1", model: "served" },
  ...all.flatMap(({ start, texts, hasTokens }): ReplyEvent[] => [
    { kind: "block-start", choice: 0, block: start },
    ...texts.map((text): ReplyEvent => {
      const logprobs = hasTokens && start.kind === "text" ? { logprobs: tokensOf(text) } : {};
      return { kind: "block-delta", choice: 0, text, ...logprobs };
    }),
    { kind: "block-end", choice: 0 },
  ]),
  { kind: "choice-finish", choice: 0, reason: "stop" },
  { kind: "finish", usage: { inputTokens: 5n, outputTokens: 7n } },
]);

/** What a provider of a dialect that callers speak, too, would send. */
function streamOf(dialect: DialectName, events: ReplyEvent[]): string {
  const writer = clients[dialect]?.createStreamWriter(asked);
  assert.ok(writer);
  return events.map((event) => writer.write(event)).join("");
}

/** Google's chunks, which tell the counts so far with each text. */
function geminiStream(events: ReplyEvent[]): string {
  const texts = events.flatMap((event) => (event.kind === "block-delta" ? [event.text] : []));
  const chunks = texts.map((text, index) => ({
    candidates: [{ content: { parts: [{ text }], role: "model" }, index: 0 }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: index, totalTokenCount: index + 5 },
    modelVersion: "served",
    responseId: "r1",
  }));
  const end = { content: { parts: [{ text: "" }] }, finishReason: "STOP", index: 0 };
  const last = { candidates: [end], responseId: "r1" };
  return [...chunks, last].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");
}

/** What passes a tap, and what it counts, with events read one after the other or each by itself. */
function pass(tap: StreamTap, stream: Buffer, hasShapes: boolean): object {
  const tally = emptyTally();
  const verdicts: unknown[] = [];
  const tallies: object[] = [];
  const cursor = createEventCursor(1_000_000);
  cursor.push(stream);
  const { bytes } = cursor;
  for (let event = cursor.next(); event; event = cursor.next()) {
    const read = hasShapes ? event : readStreamEvent(bytes.subarray(cursor.start, cursor.end));
    verdicts.push(String(tap.read(read, tally)));
    tallies.push({ ...tally });
  }
  return { verdicts, tallies, end: tap.end(tally) };
}

const spoken = ["openai-chat", "openai-responses", "anthropic-messages"] as const;

for (const upstream of [...spoken, "gemini-generate"] as const satisfies UpstreamDialectName[]) {
  for (const caller of [undefined, ...spoken]) {
    test(`repeated events read as each by itself: ${upstream} to ${caller ?? "the same"}`, (context) => {
      context.mock.timers.enable({ apis: ["Date"], now: 1_000_000 });
      const create = (): StreamTap => {
        const tap = upstreamDialects[upstream].createTap(envelopeOf(), clean);
        const [client, provider] = [caller && clients[caller], providers[upstream]];
        return client && provider ? createTranslator({ conversion: { client, provider }, asked, tap, clean }) : tap;
      };
      fc.assert(
        fc.property(replies, (events) => {
          const stream = upstream === "gemini-generate" ? geminiStream(events) : streamOf(upstream, events);
          const bytes = Buffer.from(stream);
          assert.deepEqual(pass(create(), bytes, true), pass(create(), bytes, false));
        }),
        { numRuns: 40 },
      );
    });
  }
}
