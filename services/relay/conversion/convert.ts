import type { IncomingHttpHeaders } from "node:http";
import { checkInputs } from "../dialects/check-inputs.ts";
import { UnsupportedError, type Quirk, type Target } from "../dialects/conversation.ts";
import type { CallerRequest, ClientConversion, ProviderConversion, ReadRequest } from "../dialects/conversion.ts";
import type { SingleConversion } from "../dialects/conversion.ts";
import {
  noCounts,
  type Cleaner,
  type Envelope,
  type EventVerdict,
  type StreamTap,
  type Tally,
  type UpstreamError,
} from "../dialects/dialect.ts";
import { TallyFold } from "../dialects/fold-tally.ts";
import { unfoldReply, type ReplyUsage } from "../dialects/reply.ts";
import {
  readStreamedReply,
  readWholeReply,
  type ReplyReader,
  ReplyShower,
  type ShownReply,
} from "../dialects/show-reply.ts";
import type { StreamEvent } from "../dialects/sse.ts";
import { CallFailure, failures } from "../failures.ts";
import { countedTally, usageOf } from "../charge/meter.ts";
import { possibleUnits, type UnitLimits } from "../charge/possible-usage.ts";
import { codeWithin } from "./error-code.ts";

/** The two halves of a cell of the matrix: what the caller speaks and what the upstream speaks. */
export type Conversion = { client: ClientConversion; provider: ProviderConversion };

/** What a caller says, in no dialect, and the fields that already the reading could not carry. */
export type ParsedConversation = ReadRequest & { request: Record<string, unknown> };

/** A request in the upstream's words, and the caller's fields that got lost, by the caller's names. */
export type Converted = { body: Buffer; dropped: string[] };

const maxDetailLength = 1_000;

function refused<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof UnsupportedError) {
      // A name of the caller's in it may be as long as a body.
      throw new CallFailure({ name: "field_invalid", detail: error.message.slice(0, maxDetailLength) });
    }
    // JSON within JSON, such as a call's arguments, may nest deeper than the engine can write.
    if (error instanceof RangeError) {
      throw new CallFailure({ name: "field_invalid", detail: "the request nests too deeply", cause: error });
    }
    throw error;
  }
}

/** Reads what a caller says. Throws `field_invalid` for what no other dialect could be asked. */
export function parseConversation({ body }: Envelope, client: ClientConversion): ParsedConversation {
  const request = JSON.parse(body.bytes.toString()) as Record<string, unknown>;
  return refused(() => {
    const read = client.readRequest(request);
    checkInputs(read.conversation);
    return { ...read, request };
  });
}

/** Says it in the upstream's dialect. Throws `field_invalid` for what that dialect cannot be asked. */
export function writeRequest(
  { conversation, dropped }: ParsedConversation,
  { client, provider }: Conversion,
  target: Target,
): Converted {
  return refused(() => {
    const { body, losses } = provider.writeRequest(conversation, target);
    const { webSearch } = conversation;
    const searching = webSearch && target.hasSearchPrice ? provider.addSearch?.(body, webSearch) : undefined;
    const lost = [...dropped].filter((name) => !searching || name !== webSearch?.lostAs);
    const names = [...lost, ...[...losses].map((loss) => client.lossNames[loss])];
    return { body: Buffer.from(JSON.stringify(searching ?? body)), dropped: [...new Set(names)] };
  });
}

/** A request of another kind than a conversation in the upstream's words. Throws `field_invalid`. */
export function writeSingleRequest(
  { body: { bytes } }: Envelope,
  conversion: SingleConversion,
  upstreamModel: string,
): Converted & { path: string; request: Record<string, unknown> } {
  const request = JSON.parse(bytes.toString()) as Record<string, unknown>;
  return refused(() => {
    const { path, body, dropped } = conversion.writeRequest(request, upstreamModel);
    return { path, body: Buffer.from(JSON.stringify(body)), dropped: [...dropped], request };
  });
}

type ReplyConversion = {
  conversion: Conversion;
  asked: CallerRequest;
  envelope: Envelope;
  quirks?: ReadonlySet<Quirk>;
  /** What the model can have used at most. */
  limits: UnitLimits;
};

/** What the caller is shown of the use is what is charged, in its own dialect's words: what cannot be is neither. */
function shownUsage(tally: Tally, { asked, envelope, quirks, limits }: ReplyConversion): ReplyUsage | undefined {
  const { usage, inputUsage, counted } = tally;
  const possible = {
    usage: usage && usage !== noCounts ? possibleUnits(usage, limits) : undefined,
    inputUsage: inputUsage && possibleUnits(inputUsage, limits),
    counted: possibleUnits(counted, limits),
  };
  const { units, priceFields } = envelope;
  const requested = { inputTokens: asked.inputTokens ?? 0, units, priceFields };
  return usageOf(countedTally({ ...tally, ...possible }, quirks), requested);
}

/** Reads an answer in the upstream's format, whole or streamed; what is shown of its use is what is charged. */
function readBy<Given>(read: ReplyReader<Given>, given: Given, converting: ReplyConversion): ShownReply | undefined {
  const { conversion, envelope, quirks } = converting;
  return read(conversion.provider.answers, given, { envelope, quirks }, (tally) => shownUsage(tally, converting));
}

/**
 * Reads a whole answer: what is charged, and the answer in the caller's dialect, undefined where that cannot be said.
 * Undefined when the body is none of the upstream's own.
 */
export function convertReply(
  body: unknown,
  converting: ReplyConversion,
): { tally: Tally; body: Buffer | undefined } | undefined {
  const { conversion, asked } = converting;
  const read = readBy(readWholeReply, body, converting);
  if (!read) return undefined;
  const { tally, reply } = read;
  return { tally, body: reply && Buffer.from(JSON.stringify(conversion.client.writeReply(reply, asked))) };
}

/**
 * A whole answer that came to who asked for a stream, as the events of one: its provider has made it, and bills it.
 * Undefined when the body is none of the upstream's own, or cannot be shown.
 */
export function streamOfReply(
  body: unknown,
  converting: ReplyConversion,
): { tally: Tally; events: string[] } | undefined {
  const { conversion, asked } = converting;
  const read = readBy(readWholeReply, body, converting);
  if (!read?.reply) return undefined;
  const writer = conversion.client.createStreamWriter(asked);
  return { tally: read.tally, events: unfoldReply(read.reply).map((event) => writer.write(event)) };
}

/** A stream that came to who asked for a whole answer, as that answer. Undefined when it breaks off, or is none. */
export function replyOfStream(
  bytes: Buffer,
  converting: ReplyConversion,
): { tally: Tally; body: Buffer; json: unknown } | undefined {
  const { conversion, asked } = converting;
  const read = readBy(readStreamedReply, bytes, converting);
  if (!read?.reply) return undefined;
  const json = conversion.client.writeReply(read.reply, asked);
  return { tally: read.tally, json, body: Buffer.from(JSON.stringify(json)) };
}

/** For answers that break their own format where the upstream reports no error; callers see no words of a reader. */
const unreadable: UpstreamError = {
  message: failures.upstream_invalid.message,
  type: "api_error",
  code: failures.upstream_invalid.code,
};

/** A tap that gives a stream in the caller's dialect, event by event, in the turn in which the upstream's came. */
export function createTranslator(converting: ReplyConversion & { clean: Cleaner }): StreamTap {
  const { conversion, asked, envelope, quirks, clean } = converting;
  const { createStreamReader, isOverAtError } = conversion.provider.answers;
  const writer = conversion.client.createStreamWriter(asked);
  const fold = new TallyFold();
  let text = "";
  let held = "";
  let [isOver, isCut] = [false, false];
  const shower = new ReplyShower(fold, {
    take: (event) => {
      text += writer.write(event);
    },
    usage: () => shownUsage(fold.tally, converting),
    error: (error) => {
      const cleaned = clean(error);
      return { ...cleaned, code: codeWithin(cleaned) };
    },
    unreadable: () => {
      // Where the upstream reported no error, what is missing at the end was cut off.
      if (isOver) isCut = true;
      else {
        text += writer.write({ kind: "error", error: unreadable });
        // What cannot be read has failed for the ledger, too.
        Object.assign(fold.tally, { isFailed: true, isComplete: false });
      }
    },
  });
  const reader = createStreamReader(shower, { envelope, quirks });
  const read = (event: StreamEvent, tally: Tally): EventVerdict => {
    fold.tally = tally;
    text = "";
    if (reader.read(event) === "error" && isOverAtError) {
      held = text;
      return "end";
    }
    return text === "" ? "drop" : Buffer.from(text);
  };
  const end = (tally: Tally): string => {
    if (tally.isFailed) return held;
    if (!tally.isComplete && !tally.hasFinish) return conversion.client.cutEnd;
    fold.tally = tally;
    text = "";
    isOver = true;
    reader.end();
    return isCut ? conversion.client.cutEnd : text;
  };
  return { read, end };
}

/** Whether the caller wants a refusal instead of a request that lost something on the way. */
export function isStrict(headers: IncomingHttpHeaders): boolean {
  return headers["x-relay-strict"] === "true";
}
