import type { IncomingMessage, ServerResponse } from "node:http";
import type { Transform } from "node:stream";
import type { BodyBudget, BodyShare } from "./body-budget.ts";
import { wished } from "./call-outcome.ts";
import { CallFailure } from "./failures.ts";
import { createInflater, encodingOf } from "./inflate.ts";

/** API spec, Limits: a larger body is refused with 400. */
export const maxBodyBytes = 128 * 1024 * 1024;

/** Bodies above this are read only after the key is known, so that strangers cannot fill the memory. */
const freeBodyBytes = 64 * 1024;

/** How long a sender may leave a body without a byte. */
const stallMs = 30_000;

const readingEnds = Symbol("reading ends");

/** Ends the reading of a body that is still on its way: its caller is told that the service is stopping. */
export function endReading(request: IncomingMessage): void {
  request.emit(readingEnds);
}

export type BodyReading = {
  /** Awaited once, before anything is read that is encoded or above 64 KiB. */
  checkKey: () => Promise<unknown>;
  budget: BodyBudget;
  /** How long the sender may pause; left out: 30 s. */
  stallMs?: number;
};

const tooLarge = (): CallFailure => new CallFailure({ name: "body_too_large" });
const malformed = (cause: unknown): CallFailure => new CallFailure({ name: "malformed_request", cause });
const busy = (): CallFailure =>
  new CallFailure({ name: "service_unavailable", cause: "MAX_BODY_BYTES_IN_FLIGHT leaves no room for the body" });
const stopping = (): CallFailure => new CallFailure({ name: "service_unavailable", cause: wished.stopping });

/**
 * Reads the whole body, inflated where it is encoded; what it holds of the budget is given back when the answer closes.
 * Throws what `checkKey` throws, `body_too_large` above 128 MB on the wire or inflated, `service_unavailable` when the
 * budget has no room or the relay stops, `malformed_request` for an encoding that is unknown or broken and for a sender
 * who stops; gives undefined when the caller goes away. After a failure the rest of the body is left to whoever
 * answers.
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  reading: BodyReading,
): Promise<Buffer | undefined> {
  const { headers } = request;
  const announced = Number(headers["content-length"] ?? 0);
  const encoding = encodingOf(headers["content-encoding"]);
  const isLarge = announced > freeBodyBytes || encoding !== undefined;
  // First, because a wrong key is told before a wrong body.
  if (isLarge) await reading.checkKey();
  if (announced > maxBodyBytes) throw tooLarge();
  // The caller may have gone while the key was checked; its "close" would not come again.
  if (request.destroyed || response.destroyed) return undefined;
  const share = reading.budget.share(response);
  if (isLarge && !share.claim(announced)) throw busy();
  const inflater = encoding === undefined ? undefined : createInflater(encoding);
  if (encoding !== undefined && !inflater) throw malformed(`content-encoding ${encoding}`);
  // Node has refused every other expectation; HTTP/1.0 has none.
  if (headers.expect !== undefined && request.httpVersion === "1.1") response.writeContinue();
  const onStall = (): CallFailure => {
    // A sender who has stopped would keep the connection busy until the server's own time for a request is over.
    response.setHeader("connection", "close");
    return malformed("the body stopped coming");
  };
  if (!isLarge) {
    // What came in one piece with the head is parsed in this turn, right behind what runs now.
    await Promise.resolve();
    if (request.destroyed || response.destroyed) return undefined;
    const whole = takeWhole(request, announced);
    if (whole) return whole;
  }
  try {
    return await collect({ request, inflater, share, announced, isKeyKnown: isLarge, reading, onStall });
  } finally {
    inflater?.destroy();
  }
}

/** A small body that has arrived as a whole: no listeners and no timer are needed for it. */
function takeWhole(request: IncomingMessage, announced: number): Buffer | undefined {
  // Node's parser runs what waits for the body before it notes that there is no more.
  const isWhole = request.complete || (announced > 0 && request.readableLength === announced);
  if (!isWhole || request.readableLength > freeBodyBytes) return undefined;
  const body = (request.read() as Buffer | null) ?? Buffer.alloc(0);
  // Its end is still to come, and must be read for the connection to go on.
  if (!request.complete) request.resume();
  return body;
}

/** Where the pieces of a body are put together. */
type Collected = { add: (chunk: Buffer) => void; whole: () => Buffer };

/**
 * Pieces are kept until the end, or put into their place where the length is known. A piece that was copied is given
 * back at once: left to the collector, megabytes outside of the heap make it look through all of the heap.
 */
function startCollecting(lengthBytes: number): Collected {
  if (lengthBytes === 0) {
    const chunks: Buffer[] = [];
    return {
      add: (chunk) => void chunks.push(chunk),
      whole: () => (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)),
    };
  }
  const whole = Buffer.allocUnsafeSlow(lengthBytes);
  let bytes = 0;
  return {
    add: (chunk) => {
      bytes += chunk.copy(whole, bytes);
      const { buffer } = chunk;
      // A piece of node:http has its memory for itself; anything smaller than its memory shares it.
      if (buffer instanceof ArrayBuffer && chunk.length === buffer.byteLength) buffer.transfer(0);
    },
    whole: () => whole.subarray(0, bytes),
  };
}

const ignore = (): void => undefined;

type Collecting = {
  request: IncomingMessage;
  inflater: Transform | undefined;
  share: BodyShare;
  announced: number;
  isKeyKnown: boolean;
  reading: BodyReading;
  /** Called when the sender has paused for too long; gives what is then thrown. */
  onStall: () => CallFailure;
};

async function collect(collecting: Collecting): Promise<Buffer | undefined> {
  const { request, inflater, share, reading } = collecting;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>();
  const source = inflater ?? request;
  let { isKeyKnown } = collecting;
  const collected = startCollecting(isKeyKnown && !inflater ? collecting.announced : 0);
  let bytes = 0;
  let wireBytes = 0;
  const timer = setTimeout(() => reject(collecting.onStall()), reading.stallMs ?? stallMs);
  const onWire = (chunk: Buffer): void => {
    timer.refresh();
    wireBytes += chunk.length;
    // Some encodings can go on for ever without yielding anything.
    if (wireBytes > maxBodyBytes) reject(tooLarge());
  };
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length;
    collected.add(chunk);
    if (bytes > maxBodyBytes) return reject(tooLarge());
    if (bytes <= freeBodyBytes) return;
    if (!share.claim(bytes)) return reject(busy());
    if (isKeyKnown) return;
    isKeyKnown = true;
    request.pause();
    reading.checkKey().then(() => request.resume(), reject);
  };
  const onEnd = (): void => resolve(collected.whole());
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
  } finally {
    clearTimeout(timer);
    // For errors that come late; the listener that reads would keep all of this with the request.
    request.on("error", ignore).off("error", onGone);
    if (inflater) request.unpipe(inflater);
    source.off("data", onData).off("end", onEnd);
    request.off("data", onWire).off("close", onClose).off(readingEnds, onCut);
  }
}
