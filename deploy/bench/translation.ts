import { createTranslator } from "../../services/relay/conversion/convert.ts";
import { clients, providers } from "../../services/relay/dialects/conversions.ts";
import {
  emptyTally,
  type DialectName,
  type Envelope,
  type UpstreamDialectName,
} from "../../services/relay/dialects/dialect.ts";
import { readJsonBody } from "../../services/relay/dialects/json/request-body.ts";
import { readStreamEvent } from "../../services/relay/dialects/sse.ts";

/** One cell of the matrix: microseconds of an event, and how often its bare JSON.parse that is. */
export type Translation = { cell: string; microsecondsPerEvent: number; timesJsonParse: number };

const eventsPerStream = 1_000;
const streamsPerRound = 20;
const rounds = 7;

const event = (data: unknown, type?: string): Buffer =>
  Buffer.from(`${type === undefined ? "" : `event: ${type}\n`}data: ${JSON.stringify(data)}\n\n`);

/** A piece of text as each provider streams it, with the fields that the real ones have. */
const texts: Partial<Record<UpstreamDialectName, (index: number) => Buffer>> = {
  "openai-chat": (index) =>
    event({
      id: "chatcmpl-Bh1Jc2",
      object: "chat.completion.chunk",
      created: 1_760_000_000,
      model: "gpt-5-mini",
      service_tier: "default",
      system_fingerprint: null,
      choices: [{ index: 0, delta: { content: ` word${index % 10}` }, logprobs: null, finish_reason: null }],
      usage: null,
      obfuscation: "a1b2c3d4".slice(index % 8),
    }),
  "openai-responses": (index) =>
    event(
      {
        type: "response.output_text.delta",
        sequence_number: index + 4,
        item_id: "msg_0123456789abcdef",
        output_index: 0,
        content_index: 0,
        delta: ` word${index % 10}`,
        logprobs: [],
        obfuscation: "a1b2c3",
      },
      "response.output_text.delta",
    ),
  "anthropic-messages": (index) =>
    event(
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: ` word${index % 10}` } },
      "content_block_delta",
    ),
  "gemini-generate": (index) =>
    event({
      candidates: [{ content: { parts: [{ text: ` word${index % 10}` }], role: "model" }, index: 0 }],
      usageMetadata: { promptTokenCount: 20, candidatesTokenCount: index, totalTokenCount: 20 + index },
      modelVersion: "gemini-3-pro",
      responseId: "resp-0123456789",
    }),
};

// A block of Messages opens before its text.
const openings: Partial<Record<UpstreamDialectName, Buffer[]>> = {
  "anthropic-messages": [
    event({ type: "message_start", message: { id: "msg_1", model: "claude", usage: { input_tokens: 20 } } }),
    event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
  ],
};

const envelope: Envelope = {
  body: readJsonBody(Buffer.from('{"model":"m"}')),
  model: "m",
  answer: "events",
  outputCap: undefined,
  choices: 1,
  units: {},
  priceFields: {},
  wantsStreamUsage: true,
};

function microsecondsOf(work: (bytes: Buffer) => void, events: Buffer[]): number {
  const startedAt = performance.now();
  for (const bytes of events) work(bytes);
  return ((performance.now() - startedAt) * 1_000) / events.length;
}

function translateStream(from: UpstreamDialectName, to: DialectName, events: Buffer[]): number {
  const [client, provider] = [clients[to], providers[from]];
  if (!client || !provider) throw new Error(`${from} is not converted to ${to}`);
  const clean = <T>(error: T): T => error;
  const tap = createTranslator({
    conversion: { client, provider },
    asked: { model: "m", wantsStreamUsage: true },
    envelope,
    clean,
    limits: { contextTokens: 200_000, maxOutputTokens: 64_000 },
  });
  const tally = emptyTally();
  for (const bytes of openings[from] ?? []) tap.read(readStreamEvent(bytes), tally);
  const translate = (bytes: Buffer): void => void tap.read(readStreamEvent(bytes), tally);
  return microsecondsOf(translate, events);
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

function measureCell(from: UpstreamDialectName, to: DialectName, makeEvent: (index: number) => Buffer): Translation {
  const events = Array.from({ length: eventsPerStream }, (_, index) => makeEvent(index));
  const parse = (bytes: Buffer): void => {
    JSON.parse(bytes.toString("utf8", bytes.indexOf("{")));
  };
  const costs: number[] = [];
  const ratios: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    let cost = 0;
    let parsing = 0;
    for (let stream = 0; stream < streamsPerRound; stream += 1) {
      cost += translateStream(from, to, events);
      parsing += microsecondsOf(parse, events);
    }
    costs.push(cost / streamsPerRound);
    ratios.push(cost / parsing);
  }
  // The first rounds also compile the code.
  const warm = 2;
  return {
    cell: `${from} → ${to}`,
    microsecondsPerEvent: median(costs.slice(warm)),
    timesJsonParse: median(ratios.slice(warm)),
  };
}

/** Measures every cell that converts, in this process: metering, translating and writing one event. */
export function measureTranslations(): Translation[] {
  return Object.entries(texts).flatMap(([from, makeEvent]) =>
    Object.keys(clients)
      .filter((to) => to !== from)
      .map((to) => measureCell(from as UpstreamDialectName, to as DialectName, makeEvent)),
  );
}

/** The cells as lines of a table. */
export function renderTranslations(translations: Translation[]): string {
  const rows = translations.map(
    ({ cell, microsecondsPerEvent, timesJsonParse }) =>
      `${cell.padEnd(42)} ${microsecondsPerEvent.toFixed(2).padStart(6)} µs  ${timesJsonParse.toFixed(1)}x JSON.parse`,
  );
  return ["Translating one event of a stream (metering and JSON included):", ...rows].join("\n");
}
