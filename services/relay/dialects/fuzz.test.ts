import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { Frame } from "#fake-provider/answer.ts";
import type { Behaviour } from "#fake-provider/behaviour.ts";
import { frameBytes } from "#fake-provider/frames.ts";
import { planners } from "#fake-provider/plans.ts";
import { UnsupportedError } from "./conversation.ts";
import { clients, providers, upstreamDialects } from "./conversions.ts";
import type { CallerRequest } from "./conversion.ts";
import { emptyTally, type UpstreamDialectName } from "./dialect.ts";
import { dialects } from "./index.ts";
import { readJsonBody } from "./json/request-body.ts";
import { unfoldReply, type ReplyEvent } from "./reply.ts";
import { readStreamEvent } from "./sse.ts";
import { createShownReader, replyReaderOf } from "./testing/reading.ts";

const runs = { numRuns: 400 };
const asked: CallerRequest = { model: "m", wantsStreamUsage: true, inputTokens: 9 };
const envelope = dialects["openai-chat"].readEnvelope(readJsonBody(Buffer.from("{}")), "m");

/** An event of a stream, its data parsed where it is JSON. */
type Data = unknown;

const providerNames = Object.keys(providers) as UpstreamDialectName[];

function fixturesOf(kind: "requests" | "replies", dialect: string): Record<string, unknown>[] {
  const folder = join(import.meta.dirname, "fixtures", kind, dialect);
  return readdirSync(folder).map((file) => JSON.parse(readFileSync(join(folder, file), "utf8")));
}

const behaviours: Behaviour[] = [
  { text: "one two three" },
  { thinking: "let me see", text: "it is so", tools: [{ name: "look", arguments: { at: "the sky" } }] },
  {
    tools: [
      { name: "now", arguments: {} },
      { name: "look", arguments: { at: ["é", "😀", 1] } },
    ],
  },
  { text: "cut here and", choices: 2 },
];

const fakeNames = {
  "openai-chat": "chat",
  "openai-responses": "responses",
  "anthropic-messages": "messages",
  "gemini-generate": "gemini",
} as const;

function framesOf(dialect: keyof typeof fakeNames, behaviour: Behaviour): Frame[] {
  const fake = fakeNames[dialect];
  const hasChoices = fake === "chat" || fake === "gemini";
  const request = {
    dialect: fake,
    model: "gemini-3-fake",
    isStream: true,
    includesUsage: true,
    choices: hasChoices ? (behaviour.choices ?? 1) : 1,
    outputCap: 1_000,
    promptTokens: 5,
    lastUserText: "",
    fields: {},
  };
  const { choices: _, ...common } = behaviour;
  const content = planners[fake](request, common, "req_1").render();
  assert.ok("frames" in content);
  return content.frames;
}

/** Streams as providers send them: those of the fake, and the fixtures' replies where a writer speaks the dialect. */
function streamsOf(dialect: UpstreamDialectName): Buffer[][] {
  const faked = behaviours.map((behaviour) =>
    framesOf(dialect as keyof typeof fakeNames, behaviour).map((frame) => frameBytes(frame)),
  );
  const written = fixturesOf("replies", dialect).flatMap((fixture) => {
    const reply = replyReaderOf(dialect)(fixture);
    const writer = dialect === "gemini-generate" ? undefined : clients[dialect]?.createStreamWriter(asked);
    if (!reply || !writer) return [];
    const text = unfoldReply(reply)
      .map((event) => writer.write(event))
      .join("");
    return [
      text
        .split("\n\n")
        .filter((event) => event !== "")
        .map((event) => Buffer.from(`${event}\n\n`)),
    ];
  });
  return [...faked, ...written];
}

const dataOf = (bytes: Buffer): Data => {
  const { json, data } = readStreamEvent(bytes);
  return json ?? data;
};

/** Reads a stream as the relay does, to its end. */
function readAll(dialect: UpstreamDialectName, stream: Data[]): ReplyEvent[] {
  const reader = createShownReader(dialect);
  const events = stream.flatMap((data) => (data === undefined ? [] : reader.read(data)));
  return [...events, ...reader.end(), ...reader.end()];
}

/** Whether the meter takes a stream for an answer that the provider ended. */
function isBookedAsWhole(dialect: UpstreamDialectName, stream: Data[]): boolean {
  const tap = upstreamDialects[dialect].createTap(envelope, (error) => error);
  const tally = emptyTally();
  for (const json of stream) {
    const data = typeof json === "string" ? json : JSON.stringify(json);
    tap.read({ data, json: typeof json === "string" ? undefined : json }, tally);
  }
  return !tally.isFailed && (tally.hasFinish || tally.isComplete);
}

/** How a choice stands: `block` is its open block, `over` when it was finished. */
type ChoiceState = "between" | "block" | "over";

/** What is wrong with the order of an answer's events; undefined when it is as reply.ts says. */
function problemOf(events: ReplyEvent[]): string | undefined {
  const choices = new Map<number, ChoiceState>();
  for (const [at, event] of events.entries()) {
    const isLast = at === events.length - 1;
    if (event.kind === "error") return isLast ? undefined : "something follows the error";
    if ((event.kind === "start") !== (at === 0)) return `${event.kind} at ${at}`;
    if (event.kind === "start") continue;
    if (event.kind === "finish") {
      if (!isLast) return "something follows the finish";
      const states = [...choices.values()];
      return states.length > 0 && states.every((state) => state === "over") ? undefined : "a choice is not finished";
    }
    const before = choices.get(event.choice) ?? "between";
    const wanted = event.kind === "block-start" || event.kind === "choice-finish" ? "between" : "block";
    if (before !== wanted) return `${event.kind} while ${before}`;
    if (event.kind === "block-start") choices.set(event.choice, "block");
    else if (event.kind === "block-end") choices.set(event.choice, "between");
    else if (event.kind === "choice-finish") choices.set(event.choice, "over");
    else choices.set(event.choice, before);
  }
  return "neither finish nor error";
}

const endings: Record<string, (data: Data) => boolean> = {
  "openai-chat": (data) => /"finish_reason":"/.test(JSON.stringify(data) ?? ""),
  "openai-responses": (data) => /"type":"response\.(completed|incomplete)"/.test(JSON.stringify(data) ?? ""),
  "anthropic-messages": (data) => /"type":"message_stop"/.test(JSON.stringify(data) ?? ""),
  "gemini-generate": (data) => /"finishReason":"/.test(JSON.stringify(data) ?? ""),
};

const wrongValues = [
  null,
  true,
  -1,
  1.5,
  2 ** 60,
  "",
  "x",
  [],
  {},
  [null],
  [[]],
  { type: 1 },
  "__proto__",
  "constructor",
  "toString",
];

/** Places within a value, as paths of keys. */
function pathsOf(value: unknown, path: string[] = []): string[][] {
  if (typeof value !== "object" || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, inner]) => pathsOf(inner, [...path, key]))];
}

/** A copy with another value at one of its places; `undefined` takes it out. */
function withValue(value: unknown, [key, ...rest]: string[], other: unknown): unknown {
  if (key === undefined) return other;
  const copy = structuredClone(value) as Record<string, unknown>;
  const inner = withValue(copy[key], rest, other);
  if (inner !== undefined) copy[key] = inner;
  else if (Array.isArray(copy)) copy.splice(Number(key), 1);
  else delete copy[key];
  return copy;
}

type Change = { place: number; value: unknown };
const change: fc.Arbitrary<Change> = fc.record({
  place: fc.nat(),
  value: fc.oneof(fc.constantFrom<unknown>(undefined, ...wrongValues), fc.jsonValue({ maxDepth: 3 })),
});

function changed(value: unknown, { place, value: other }: Change): unknown {
  const paths = pathsOf(value);
  return withValue(value, paths[place % paths.length] ?? [], other);
}

type Step =
  | { kind: "drop" | "repeat" | "swap" | "cut"; at: number }
  | { kind: "change"; at: number; change: Change }
  | { kind: "flip"; at: number; byte: number; to: number }
  | { kind: "insert"; at: number; value: unknown };

const at = fc.nat();
const ordering = fc.record({ kind: fc.constantFrom("drop", "repeat", "swap", "cut" as const), at });
const step: fc.Arbitrary<Step> = fc.oneof(
  ordering,
  fc.record({ kind: fc.constant("change" as const), at, change }),
  fc.record({ kind: fc.constant("change" as const), at, change }),
  fc.record({ kind: fc.constant("flip" as const), at, byte: fc.nat(), to: fc.nat(255) }),
  fc.record({ kind: fc.constant("insert" as const), at, value: fc.jsonValue({ maxDepth: 4 }) }),
);

function flipped(data: Data, byte: number, to: number): Data {
  const bytes = Buffer.from(typeof data === "string" ? data : JSON.stringify(data ?? null));
  bytes[byte % bytes.length] = to;
  return dataOf(Buffer.concat([Buffer.from("data: "), bytes, Buffer.from("\n\n")]));
}

/** A stream with one thing wrong in it. */
function mutated(stream: Data[], one: Step): Data[] {
  const place = one.at % Math.max(stream.length, 1);
  const event = stream[place];
  switch (one.kind) {
    case "drop":
      return stream.toSpliced(place, 1);
    case "repeat":
      return stream.toSpliced(place, 0, event);
    case "swap":
      return stream.toSpliced(place, 2, ...stream.slice(place, place + 2).toReversed());
    case "cut":
      return stream.slice(0, place);
    case "change":
      return stream.toSpliced(place, 1, changed(event, one.change));
    case "flip":
      return stream.toSpliced(place, 1, flipped(event, one.byte, one.to));
    case "insert":
      return stream.toSpliced(place, 0, one.value);
  }
}

/** Every client must be able to show what a reader told, whatever it was. */
function writeForAll(events: ReplyEvent[]): void {
  for (const client of Object.values(clients)) {
    const writer = client.createStreamWriter(asked);
    for (const event of events) assert.equal(typeof writer.write(event), "string");
  }
}

for (const dialect of providerNames) {
  describe(`streams of ${dialect}`, () => {
    const streams = streamsOf(dialect).map((stream) => stream.map(dataOf));
    const stream = fc.constantFrom(...streams);

    test("all of them are whole as they are", () => {
      for (const one of streams) {
        const events = readAll(dialect, one);
        assert.equal(problemOf(events), undefined);
        assert.equal(events.at(-1)?.kind, "finish");
      }
    });

    test("whatever is wrong in a stream, its reader goes on or ends it; blocks nest, and every client can show it", () => {
      const check = fc.property(stream, fc.array(step, { minLength: 1, maxLength: 4 }), (one, steps) => {
        const wrong = steps.reduce(mutated, one);
        const events = readAll(dialect, wrong);
        assert.equal(problemOf(events), undefined);
        writeForAll(events);
        if (events.at(-1)?.kind === "finish") assert.ok(isBookedAsWhole(dialect, wrong), "the ledger says so, too");
      });
      fc.assert(check, runs);
    });

    test("a stream that broke before the provider said why it ended never ends well", () => {
      const check = fc.property(stream, fc.array(ordering, { maxLength: 3 }), fc.nat(), (one, steps, cut) => {
        const disordered = steps.reduce(mutated, one);
        const firstEnding = disordered.findIndex((data) => endings[dialect]?.(data));
        const before = firstEnding === -1 ? disordered : disordered.slice(0, firstEnding);
        const events = readAll(dialect, before.slice(0, cut % (before.length + 1)));
        assert.equal(problemOf(events), undefined);
        assert.equal(events.at(-1)?.kind, "error");
      });
      fc.assert(check, runs);
    });
  });

  test(`whole replies of ${dialect}, with something wrong in them, are read or are none; every client can show them`, () => {
    const check = fc.property(
      fc.constantFrom(...fixturesOf("replies", dialect)),
      fc.array(change, { minLength: 1, maxLength: 3 }),
      (fixture, changes) => {
        const reply = replyReaderOf(dialect)(changes.reduce<unknown>(changed, fixture));
        if (!reply) return;
        assert.equal(problemOf(unfoldReply(reply)), undefined);
        for (const client of Object.values(clients)) JSON.stringify(client.writeReply(reply, asked));
      },
    );
    fc.assert(check, runs);
  });
}

/** What `work` gives; undefined when it refuses for want of words. */
function unlessUnsupported<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof UnsupportedError) return undefined;
    throw error;
  }
}

const target = { model: "m-upstream", maxOutputTokens: 32_000, quirks: new Set<never>() };

for (const [dialect, client] of Object.entries(clients)) {
  test(`requests of ${dialect}, with something wrong in them, are said to every provider or refused by name`, () => {
    const fixture = fc.constantFrom(...fixturesOf("requests", dialect));
    const property = fc.property(fixture, fc.array(change, { minLength: 1, maxLength: 3 }), (request, changes) => {
      const wrong = changes.reduce<unknown>(changed, request);
      // The relay takes no body that is not a JSON object.
      if (typeof wrong !== "object" || wrong === null || Array.isArray(wrong)) return;
      const read = unlessUnsupported(() => client.readRequest(wrong as Record<string, unknown>));
      if (!read) return;
      for (const provider of Object.values(providers)) {
        const written = unlessUnsupported(() => provider.writeRequest(read.conversation, target));
        if (written) JSON.stringify(written.body);
      }
    });
    fc.assert(property, { numRuns: 1_000 });
  });
}
