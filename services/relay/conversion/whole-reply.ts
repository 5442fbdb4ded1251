import type { UnitLimits } from "../charge/possible-usage.ts";
import type { Quirk } from "../dialects/conversation.ts";
import {
  emptyTally,
  type Cleaner,
  type Dialect,
  type Envelope,
  type StreamTap,
  type Tally,
} from "../dialects/dialect.ts";
import { eventsOf } from "../dialects/event-cursor.ts";
import { eventEnd, eventJson } from "../dialects/sse.ts";
import { eventStreamType } from "../http/respond.ts";
import { clients, providers } from "../dialects/conversions.ts";
import { convertReply, createTranslator, replyOfStream, streamOfReply } from "./convert.ts";
import type { Prepared } from "./prepare.ts";
import type { Binding } from "../threads/messages.ts";
import { IdSealer, sealEvents, sealTap } from "./seal-ids.ts";

/** What a whole answer is read by. */
export type ReplyReading = {
  envelope: Envelope;
  /** The caller's. */
  dialect: Pick<Dialect, "name" | "rewriteReply" | "stateIdsOf">;
  prepared: Pick<Prepared, "dialect" | "conversion" | "single">;
  quirks: ReadonlySet<Quirk>;
  /** What the model can have used at most. */
  limits: UnitLimits;
  /** Of the upstream's answer. */
  contentType: string;
  /** Where ids in it are sealed. */
  binding?: Binding | undefined;
};

/** What is charged, and the answer as the caller gets it. */
export type WholeReply = { tally: Tally; body: Buffer; contentType: string };

/**
 * A whole answer. Without a reply it cannot be read, or has nothing in it to give: the caller is told why, and the
 * tally is what its provider has done all the same.
 */
export type ReadReply = { reply?: WholeReply | undefined; refusal?: string | undefined; tally?: Tally | undefined };

const onlyWords = "The model answered in words, without what was asked for";

const eventsStart = /^\u{feff}?\s*(?:data|event|id|retry)?:/u;

const startsAsEvents = (bytes: Buffer): boolean => eventsStart.test(bytes.toString("utf8", 0, 64));

/** Whether an answer came whole to who asked for a stream, or as events to who asked for a whole one. */
function isOtherwise(parsed: unknown, bytes: Buffer, { envelope: { answer } }: ReplyReading): boolean {
  if (answer !== "json") return answer === "events";
  return parsed === undefined && startsAsEvents(bytes);
}

/** By what an answer is shown in the other way, streamed or whole, than it came in; undefined where nothing does it. */
function showingOf({ envelope, prepared, dialect }: ReplyReading): Prepared["conversion"] {
  if (prepared.conversion) return prepared.conversion;
  const [client, provider] = [clients[dialect.name], providers[prepared.dialect.name]];
  if (!client || !provider || prepared.single) return undefined;
  const { model, wantsStreamUsage } = envelope;
  return { client, provider, asked: { model, wantsStreamUsage } };
}

/** The same in the way that was asked for: its provider has made it, and bills it. */
function replyOtherwise(
  parsed: unknown,
  bytes: Buffer,
  reading: ReplyReading,
  conversion: NonNullable<Prepared["conversion"]>,
): WholeReply | undefined {
  const { envelope, dialect, quirks, limits, binding } = reading;
  const sealing = binding && dialect.stateIdsOf && { sealer: new IdSealer(binding), idsOf: dialect.stateIdsOf };
  const converting = { conversion, asked: conversion.asked, envelope, quirks, limits };
  if (envelope.answer !== "events") {
    const { tally, body, json } = replyOfStream(bytes, converting) ?? {};
    const sealed = body && sealing ? sealing.sealer.seal(body, sealing.idsOf(json)) : body;
    return tally && sealed && { tally, body: sealed, contentType: "application/json" };
  }
  const { tally, events } = streamOfReply(parsed, converting) ?? {};
  const sealed = events && sealing ? sealEvents(events, sealing.idsOf, sealing.sealer) : events;
  return tally && sealed && { tally, body: Buffer.from(sealed.join("")), contentType: eventStreamType };
}

/** What watches a stream for the ledger and, where the upstream speaks another dialect, translates it. */
export function tapOf(
  { envelope, prepared: { dialect, conversion }, dialect: { stateIdsOf }, quirks, limits, binding }: ReplyReading,
  clean: Cleaner,
): StreamTap {
  if (conversion) return createTranslator({ conversion, asked: conversion.asked, envelope, quirks, limits, clean });
  const tap = dialect.createTap(envelope, clean, quirks);
  return binding && stateIdsOf ? sealTap(tap, stateIdsOf, new IdSealer(binding)) : tap;
}

const blankLine = Buffer.from("\n\n");

/**
 * A stream whose head says that it is something else, as the caller of a stream gets it. Undefined when it breaks off,
 * or tells an error.
 */
function replyOfEvents(bytes: Buffer, reading: ReplyReading): WholeReply | undefined {
  const tap = tapOf(reading, (error) => error);
  const tally = emptyTally();
  const pieces: Buffer[] = [];
  for (const event of eventsOf(bytes)) {
    const verdict = tap.read(event, tally);
    if (verdict === "pass" && event.bytes) pieces.push(event.bytes);
    else if (typeof verdict !== "string") pieces.push(verdict);
    if (event.bytes && eventEnd(event.bytes, 0, 0) === -1) pieces.push(blankLine);
  }
  if (tally.isFailed || !(tally.isComplete || tally.hasFinish)) return undefined;
  return { tally, body: Buffer.concat([...pieces, Buffer.from(tap.end(tally))]), contentType: eventStreamType };
}

function replyOf(parsed: unknown, bytes: Buffer, reading: ReplyReading): WholeReply | undefined {
  const { envelope, prepared, dialect, quirks, limits, binding } = reading;
  const { conversion, single } = prepared;
  if (envelope.answer === "events" && parsed === undefined && !single && startsAsEvents(bytes)) {
    return replyOfEvents(bytes, reading);
  }
  if (isOtherwise(parsed, bytes, reading)) {
    const showing = showingOf(reading);
    if (showing) return replyOtherwise(parsed, bytes, reading, showing);
    // Formats that nothing turns into a stream pass whole, as some of their models are documented to answer.
  }
  const contentType = envelope.answer === "json" ? "application/json" : reading.contentType;
  if (conversion) {
    const { asked } = conversion;
    const { tally, body } = convertReply(parsed, { conversion, asked, envelope, quirks, limits }) ?? {};
    return tally && body && { tally, body, contentType };
  }
  const tally = prepared.dialect.readReply(parsed, envelope, quirks);
  if (!tally) return undefined;
  if (!single) {
    const body = dialect.rewriteReply?.(parsed, envelope) ?? bytes;
    const sealed = binding && dialect.stateIdsOf && new IdSealer(binding).seal(body, dialect.stateIdsOf(parsed));
    return { tally, body: sealed ?? body, contentType };
  }
  const reply = single.conversion.writeReply(parsed, single.request, envelope);
  return reply && { tally, ...reply };
}

/** What is charged for an answer, by what was kept of it; undefined for one that cannot be read. */
export function readTally(likeness: Buffer, { envelope, prepared, quirks }: ReplyReading): Tally | undefined {
  return prepared.dialect.readReply(eventJson(likeness.toString()), envelope, quirks);
}

/** Reads a whole answer to a request. */
export function readReply(bytes: Buffer, reading: ReplyReading): ReadReply {
  const text = bytes.toString();
  const parsed = reading.envelope.answer === "text" ? text : eventJson(text);
  const reply = replyOf(parsed, bytes, reading);
  return reply ? { reply } : readEmpty(parsed, reading);
}

/** An answer of a model that was to make pictures or sound, and made none. */
function readEmpty(parsed: unknown, { envelope, prepared, quirks }: ReplyReading): ReadReply {
  if (!prepared.single) return {};
  const tally = prepared.dialect.readReply(parsed, envelope, quirks);
  const refusal = prepared.single.conversion.refusalOf(parsed) ?? (tally?.hasContent ? onlyWords : undefined);
  return refusal === undefined ? {} : { refusal, tally };
}
