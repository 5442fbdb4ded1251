import { readBaseError } from "../dialects/base-error.ts";
import type { Envelope, UpstreamDialect } from "../dialects/dialect.ts";
import { emptyTally, member } from "../dialects/dialect.ts";
import { createEventCursor, type EventCursor, eventsOf } from "../dialects/event-cursor.ts";
import { eventJson, EventTooLargeError, type StreamEvent } from "../dialects/sse.ts";
import { isEncoded, isFlowing } from "./answer-head.ts";
import type { SentAnswer } from "./send.ts";

/** Whether a stream of 200 begins with an error is waited for no longer, so that its caller has the head by then. */
const maxWaitMs = 1_000;
const maxBytes = 65_536;
/** An error comes in one or two. With each, all of the event is copied. */
const maxPieces = 64;
/** Of an answer that is no stream: an error is short. */
const maxWholeBytes = 8_192;

// By which providers tell in a stream what else has a status. What is not here may be the request's own fault.
const statuses: Record<string, number> = {
  invalid_request_error: 400,
  overloaded_error: 529,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  RESOURCE_EXHAUSTED: 429,
  api_error: 500,
  server_error: 500,
  internal_error: 500,
  internal_server_error: 500,
  InternalServerError: 500,
  INTERNAL: 500,
  service_unavailable: 503,
  service_unavailable_error: 503,
  UNAVAILABLE: 503,
};

/** An error of an upstream, with the status that it has, or would have. */
export type ToldError = { status: number; body: unknown };

/** The status that an error has by its words; undefined where they tell none. */
export function toldStatus(error: unknown): number | undefined {
  for (const name of ["code", "status", "type"]) {
    const said = member(error, name);
    const status = Number(said);
    if (status >= 400 && status < 600) return status;
    if (typeof said === "string" && Object.hasOwn(statuses, said)) return statuses[said];
  }
  return undefined;
}

/** The status of an error within an answer of 200. */
const statusOf = (body: unknown): number => toldStatus(member(body, "error") ?? readBaseError(body) ?? body) ?? 400;

/** The next event that holds anything; comments do not. */
function nextOf(cursor: EventCursor): StreamEvent | undefined {
  for (let event = cursor.next(); event; event = cursor.next()) if (event.data !== undefined) return event;
  return undefined;
}

type Seen<T> = { found: T | undefined };

/** What `look` finds in what comes of an answer; undefined where that takes too long, or too many pieces. */
function peekFor<T>(
  answer: SentAnswer,
  look: (piece: Buffer | undefined, isOver: boolean) => Seen<T> | undefined,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), maxWaitMs);
    let pieces = 0;
    answer.peek((piece, isOver) => {
      pieces += 1;
      const seen = look(piece, isOver);
      if (!seen && !isOver && pieces < maxPieces) return false;
      clearTimeout(timer);
      resolve(seen?.found);
      return true;
    });
  });
}

/** The first event of a stream; undefined where it does not come in time, or nobody can read it. */
function firstEvent(answer: SentAnswer): Promise<StreamEvent | undefined> {
  const cursor = createEventCursor(maxBytes);
  return peekFor(answer, (piece, isOver) => {
    try {
      if (piece) cursor.push(piece);
      const event = nextOf(cursor) ?? (isOver ? lastOf(cursor.rest()) : undefined);
      return event && { found: event };
    } catch (thrown) {
      if (thrown instanceof EventTooLargeError) return { found: undefined };
      throw thrown;
    }
  });
}

/** One that has no blank line behind it. */
const lastOf = (rest: Buffer): StreamEvent | undefined => [...eventsOf(rest)].find(({ data }) => data !== undefined);

/** All of a short answer that is no stream; undefined where it is longer, or does not come in time. */
function shortWhole(answer: SentAnswer): Promise<Buffer | undefined> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  return peekFor(answer, (piece, isOver) => {
    bytes += piece?.length ?? 0;
    if (bytes > maxWholeBytes) return { found: undefined };
    if (piece) pieces.push(piece);
    return isOver ? { found: Buffer.concat(pieces) } : undefined;
  });
}

type Reading = Pick<UpstreamDialect, "createTap" | "readError" | "readReply">;

/** The error that is the whole of an answer of 200; undefined where it holds an answer. */
async function wholeError(answer: SentAnswer, envelope: Envelope, dialect: Reading): Promise<ToldError | undefined> {
  if (isEncoded(answer)) return undefined;
  const whole = await shortWhole(answer);
  // What tells of use was served; nearly every answer does, and is parsed once.
  if (!whole || whole.includes('"usage')) return undefined;
  const body = eventJson(whole.toString());
  if (body === undefined || !dialect.readError(body) || dialect.readReply(body, envelope)) return undefined;
  return { status: statusOf(body), body };
}

/**
 * The error with which an answer of 200 begins, of an upstream that says so before it knows whether it serves. Nothing
 * is taken of one that begins otherwise, or later than is waited for.
 */
export async function firstError(
  answer: SentAnswer,
  envelope: Envelope,
  dialect: Reading,
): Promise<ToldError | undefined> {
  if (!isFlowing(answer, envelope.answer)) return await wholeError(answer, envelope, dialect);
  const event = await firstEvent(answer);
  if (!event) return undefined;
  const tally = emptyTally();
  dialect.createTap(envelope, (error) => error).read(event, tally);
  if (!tally.isFailed) return undefined;
  const own: unknown = Array.isArray(event.json) ? (event.json as unknown[])[0] : event.json;
  const body = member(own, "response") ?? own;
  return { status: statusOf(body), body };
}
