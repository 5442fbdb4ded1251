import type { IncomingMessage } from "node:http";
import type { Readable, Transform } from "node:stream";
import { forgetBody } from "#shared/process/in-turn.ts";
import type { BodyBudget, BodyOwner, BodyShare } from "./body-budget.ts";
import { expectedCauses, CallFailure } from "../failures.ts";
import { createInflater, encodingOf, isBomb } from "./inflate.ts";
import type { CallRequest, CallResponse } from "./exchange.ts";
import { startCollecting } from "./collect-pieces.ts";
import { largeBytes, type Threads, type ThreadSession } from "../threads/threads.ts";

/** API spec, Limits: a larger body is refused with 400. */
export const maxBodyBytes = 128 * 1024 * 1024;

/** Bodies above this are read only after the key is known, so that strangers cannot fill the memory. */
const freeBodyBytes = 64 * 1024;

/** How long a sender may leave a body without a byte. */
const stallMs = 30_000;

/** What must come of a body above 64 KiB in each such time, so that nobody holds memory by dripping: 17 KiB/s. */
const leastBytes = 512 * 1024;

/** Of many pieces, as chunks may be: each costs as much as thousands of bytes do. */
export const freePieces = 1_024;
export const leastPieceBytes = 8;

const readingEnds = Symbol("reading ends");

/** Ends the reading of a body that is still on its way: its caller is told that the service is stopping. */
export function endReading(request: IncomingMessage): void {
  request.emit(readingEnds);
}

export type BodyOptions = {
  /** Awaited once, before anything is read that is encoded or above 64 KiB. */
  checkKey: () => Promise<unknown>;
  budget: BodyBudget;
  owner: BodyOwner;
  /** Opens a place in a thread for a body above `mostHere`; left out: it is kept here. */
  openSession?: (() => ThreadSession) | undefined;
  mostHere?: number;
  /** Whether these threads take what comes; where they do not, calls back once they do. */
  keepUp?: Threads["keepUp"];
  /** How long the sender may pause, and in which a large body must come on by 512 KiB; left out: 30 s. */
  stallMs?: number;
};

/** A body whose bytes are in a thread. */
export type LargeBody = { session: ThreadSession; length: number };

const tooLarge = (): CallFailure => new CallFailure({ name: "body_too_large" });
const malformed = (cause: unknown): CallFailure => new CallFailure({ name: "malformed_request", cause });
const busy = (): CallFailure =>
  new CallFailure({ name: "service_unavailable", cause: "MAX_BODY_BYTES_IN_FLIGHT leaves the caller no room" });
const behind = (): CallFailure =>
  new CallFailure({ name: "service_unavailable", cause: "the threads for large bodies do not keep up" });
const stopping = (): CallFailure => new CallFailure({ name: "service_unavailable", cause: expectedCauses.stopping });

/**
 * Reads the whole body, inflated where it is encoded; what it holds of the budget is given back when the answer closes.
 * Throws what `checkKey` throws, `body_too_large` above 128 MB on the wire or inflated and for what inflates too far,
 * `service_unavailable` when the budget has no room or the relay stops, `malformed_request` for an encoding that is
 * unknown or broken and for a sender who stops; gives undefined when the caller goes away. After a failure the rest of
 * the body is left to whoever answers.
 */
export function readBody(
  request: CallRequest,
  response: CallResponse,
  reading: BodyOptions & { openSession?: undefined },
): Promise<Buffer | undefined>;
export function readBody(
  request: CallRequest,
  response: CallResponse,
  reading: BodyOptions,
): Promise<Buffer | LargeBody | undefined>;
export async function readBody(
  request: CallRequest,
  response: CallResponse,
  reading: BodyOptions,
): Promise<Buffer | LargeBody | undefined> {
  const { headers } = request;
  const announced = Number(headers["content-length"] ?? 0);
  const encoding = encodingOf(headers["content-encoding"]);
  const isLarge = announced > freeBodyBytes || encoding !== undefined;
  // First, because a wrong key is told before a wrong body.
  if (isLarge) await reading.checkKey();
  if (announced > maxBodyBytes) throw tooLarge();
  // The caller may have gone while the key was checked; its "close" would not come again.
  if (request.destroyed || response.destroyed) return undefined;
  const share = reading.budget.share(response, reading.owner);
  const inflater = encoding === undefined ? undefined : createInflater(encoding);
  if (encoding !== undefined && !inflater) throw malformed(`content-encoding ${encoding}`);
  // Node has refused every other expectation; HTTP/1.0 has none.
  if (headers.expect !== undefined && request.httpVersion === "1.1") response.writeContinue();
  const onStall = (cause: string): CallFailure => {
    // A sender who has stopped would keep the connection busy until the server's own time for a request is over.
    response.setHeader("connection", "close");
    return malformed(cause);
  };
  const onTiny = (): CallFailure => {
    forgetBody(request.socket);
    return onStall("the body comes in tiny pieces");
  };
  if (!isLarge) {
    // What came in one piece with the head is parsed in this turn, right behind what runs now.
    await Promise.resolve();
    if (request.destroyed || response.destroyed) return undefined;
    const whole = takeWhole(request, announced);
    if (whole) return whole;
  }
  try {
    return await collect({ request, inflater, share, announced, isKeyKnown: isLarge, reading, onStall, onTiny });
  } catch (failure) {
    // At once, so that of several large bodies that need more than there is not all are refused.
    share.release();
    throw failure;
  } finally {
    inflater?.destroy();
  }
}

/** A small body that has arrived as a whole: no listeners and no timer are needed for it. */
function takeWhole(request: CallRequest, announced: number): Buffer | undefined {
  // Node's parser runs what waits for the body before it notes that there is no more.
  const isWhole = request.complete || (announced > 0 && request.readableLength === announced);
  if (!isWhole || request.readableLength > freeBodyBytes) return undefined;
  const body = (request.read() as Buffer | null) ?? Buffer.alloc(0);
  // Its end is still to come, and must be read for the connection to go on.
  if (!request.complete) request.resume();
  return body;
}

/** Where a body comes together: here, or in a thread as soon as it is large. */
type BodyCollector = { add: (chunk: Buffer) => void; whole: () => Buffer | LargeBody; drop: () => void };

function gather(mostBytes: number, { openSession, mostHere = largeBytes }: BodyOptions): BodyCollector {
  const local = startCollecting(mostBytes);
  if (!openSession) return local;
  let session: ThreadSession | undefined;
  let length = 0;
  return {
    add: (chunk) => {
      length += chunk.length;
      if (!session && length <= mostHere) return local.add(chunk);
      if (!session) {
        session = openSession();
        session.add("request", local.whole(), true);
      }
      session.add("request", chunk, true);
    },
    whole: () => (session ? { session, length } : local.whole()),
    drop: () => (session ? session.forget() : local.drop()),
  };
}

/** Tells of each piece whether a window of time has ended with it in which too little came. */
function startPace(windowMs: number): { isSlow: (bytes: number) => boolean; restart: () => void } {
  let startedAtMs = performance.now();
  let came = 0;
  const restart = (): void => {
    startedAtMs = performance.now();
    came = 0;
  };
  const isSlow = (bytes: number): boolean => {
    came += bytes;
    if (performance.now() - startedAtMs < windowMs) return false;
    const isTooLittle = came < leastBytes;
    restart();
    return isTooLittle;
  };
  return { isSlow, restart };
}

/** Tells of each piece, by what has come with it in all, whether they are too many for that. */
function countPieces(): (bytes: number) => boolean {
  let pieces = 0;
  return (bytes) => {
    pieces += 1;
    return pieces > freePieces && bytes < pieces * leastPieceBytes;
  };
}

type Patience = {
  waitMs: number;
  source: Pick<Readable, "pause" | "resume">;
  keepUp: BodyOptions["keepUp"];
  /** Called when nothing has come in time; `isHeld`: because it was not read on. */
  onOver: (isHeld: boolean) => void;
};

/** Gives a sender its time, which each piece renews; the time in which threads do not take what comes is none of it. */
function startPatience({ waitMs, source, keepUp, onOver }: Patience) {
  let isHeld = false;
  let isEnded = false;
  const pace = startPace(waitMs);
  const timer = setTimeout(() => onOver(isHeld), waitMs);
  const goOn = (): void => {
    isHeld = false;
    if (isEnded) return;
    timer.refresh();
    pace.restart();
    source.resume();
  };
  return {
    ...pace,
    renew: () => void timer.refresh(),
    /** Reads on only when threads take what comes. */
    holdBack: () => {
      if (isHeld || keepUp?.(goOn) !== false) return;
      isHeld = true;
      source.pause();
    },
    end: () => {
      isEnded = true;
      clearTimeout(timer);
    },
  };
}

const ignore = (): void => undefined;

type BodyRead = {
  request: CallRequest;
  inflater: Transform | undefined;
  share: BodyShare;
  announced: number;
  isKeyKnown: boolean;
  reading: BodyOptions;
  /** Called when the sender has paused for too long, or is too slow; gives what is then thrown. */
  onStall: (cause: string) => CallFailure;
  /** The same when the pieces that come are tiny. */
  onTiny: () => CallFailure;
};

async function collect(collecting: BodyRead): Promise<Buffer | LargeBody | undefined> {
  const { request, inflater, share, reading } = collecting;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | LargeBody | undefined>();
  const source = inflater ?? request;
  let { isKeyKnown } = collecting;
  const most = inflater || collecting.announced === 0 ? maxBodyBytes : collecting.announced;
  const collected = gather(most, reading);
  let bytes = 0;
  let wireBytes = 0;
  const areTiny = countPieces();
  let isOver = false;
  const fail = (failure: CallFailure): void => {
    isOver = true;
    reject(failure);
  };
  const onOver = (isHeld: boolean): void => fail(isHeld ? behind() : collecting.onStall("the body stopped coming"));
  const patience = startPatience({ waitMs: reading.stallMs ?? stallMs, source, keepUp: reading.keepUp, onOver });
  const onWire = (chunk: Buffer): void => {
    if (isOver) return;
    patience.renew();
    wireBytes += chunk.length;
    if (areTiny(wireBytes)) return fail(collecting.onTiny());
    const isSlow = patience.isSlow(chunk.length);
    // Some encodings can go on for ever without yielding anything.
    if (wireBytes > maxBodyBytes) fail(tooLarge());
    else if (isSlow && Math.max(bytes, wireBytes) > freeBodyBytes)
      fail(collecting.onStall("the body comes too slowly"));
  };
  const onData = (chunk: Buffer): void => {
    if (isOver) return;
    bytes += chunk.length;
    if (bytes > maxBodyBytes || (inflater && isBomb(bytes, wireBytes))) return fail(tooLarge());
    const hasRoom = share.claim(bytes);
    if (!hasRoom && isKeyKnown) return fail(busy());
    collected.add(chunk);
    if (isKeyKnown && bytes > freeBodyBytes) patience.holdBack();
    if (isKeyKnown || (hasRoom && bytes <= freeBodyBytes)) return;
    isKeyKnown = true;
    request.pause();
    const goOn = (): void => {
      if (!share.claim(bytes)) return fail(busy());
      patience.restart();
      request.resume();
    };
    reading.checkKey().then(goOn, reject);
  };
  const onEnd = (): void => {
    // Behind the key it is one of many small ones, which count nothing.
    if (!isKeyKnown) share.release();
    resolve(collected.whole());
  };
  const onGone = (): void => resolve(undefined);
  const onCut = (): void => reject(stopping());
  // An inflated body ends after the request that carried it.
  const onClose = (): void => (request.complete ? undefined : onGone());
  // The wire first: behind it, the memory of a piece may be given back.
  request.on("data", onWire).once("close", onClose).once("error", onGone).once(readingEnds, onCut);
  source.on("data", onData).once("end", onEnd);
  inflater?.on("error", (error) => reject(malformed(error)));
  if (inflater) request.pipe(inflater);
  try {
    return await promise;
  } catch (failure) {
    collected.drop();
    throw failure;
  } finally {
    patience.end();
    // For errors that come late; the listener that reads would keep all of this with the request.
    request.on("error", ignore).off("error", onGone);
    if (inflater) request.unpipe(inflater);
    source.off("data", onData).off("end", onEnd);
    request.off("data", onWire).off("close", onClose).off(readingEnds, onCut);
  }
}
