import type { ServerResponse } from "node:http";
import { setImmediate, setTimeout } from "node:timers/promises";
import { constants, createGzip, gzipSync } from "node:zlib";
import type { StreamReply } from "./answer.ts";
import type { Behaviour, Fault } from "./behaviour.ts";
import { frameBytes, framesBeforeFault, packFrames, type Packet } from "./frames.ts";

/** A response on its way: where it goes, how it shall behave, and when the other side leaves. */
export type Delivery = {
  response: ServerResponse;
  behaviour: Behaviour;
  isGzip: boolean;
  /** Aborted when the connection is gone. */
  gone: AbortSignal;
};

export type Ending = "whole" | "cut";

/** The other side has left before all of the answer was handed to the connection. */
export class ConnectionGoneError extends Error {}

/** Waits, at most until the connection is gone; then rejects. 0 or undefined does not wait. */
export async function pause(delivery: Delivery, waitMs: number | undefined): Promise<void> {
  if (!waitMs) return;
  await setTimeout(waitMs, undefined, { signal: delivery.gone }).catch((error: unknown) => {
    throw new ConnectionGoneError("it went while the answer waited", { cause: error });
  });
}

/** Does what a fault before the head asks for; false when there is no such fault. */
export async function strikeBeforeHead(delivery: Delivery): Promise<boolean> {
  const kind = delivery.behaviour.fault?.kind;
  if (kind === "silence") await forever(delivery);
  if (kind !== "reset-before-headers") return false;
  delivery.response.socket?.resetAndDestroy();
  return true;
}

/** Sends a whole answer under a head already set. Any fault strikes in the middle of the body. */
export async function deliverWhole(delivery: Delivery, content: string | Buffer): Promise<Ending> {
  const { response, behaviour, isGzip } = delivery;
  const body = isGzip ? gzipSync(content) : Buffer.from(content);
  const { fault } = behaviour;
  const cutBody = body.subarray(0, body.length >> 1);
  response.setHeader("content-length", fault?.kind === "end-early" ? cutBody.length : body.length);
  if (behaviour.firstChunkAfterMs) response.flushHeaders();
  await pause(delivery, behaviour.firstChunkAfterMs);
  if (!fault) {
    await finish(delivery, body);
    return "whole";
  }
  await written(delivery, (done) => response.write(cutBody, done));
  await strike(delivery, fault);
  return "cut";
}

/** Sends a streamed answer under a head already set; `onPacket` is told after each write that reached the system. */
export async function deliverStream(
  delivery: Delivery,
  { frames, framing: usual, errorFrames, onPacket }: StreamReply & { onPacket: (packet: Packet) => void },
): Promise<Ending> {
  const { response, behaviour } = delivery;
  const { fault } = behaviour;
  const framing = { ...usual, ...behaviour.framing };
  const write = delivery.isGzip ? gzipWriter(delivery) : plainWriter(delivery);
  response.flushHeaders();
  await pause(delivery, behaviour.firstChunkAfterMs);

  const strikeAt = framesBeforeFault(frames, fault);
  let isFirst = true;
  for (const packet of packFrames(frames.slice(0, strikeAt), framing)) {
    if (!isFirst) await pause(delivery, behaviour.gapMs);
    isFirst = false;
    await write(packet.bytes);
    onPacket(packet);
    // Lets the write leave as a packet of its own, and lets this process notice that the other side is gone.
    await setImmediate();
  }
  if (!fault) {
    // Clients hang up at the end mark, often before the transfer's own end; the answer is whole all the same.
    await write(undefined).catch(() => undefined);
    return "whole";
  }
  await pause(delivery, behaviour.gapMs);
  const next = frames[strikeAt];
  if (fault.kind === "half-frame" && next) await write(halfOf(frameBytes(next, framing)));
  if (endsWithError(fault)) {
    for (const frame of errorFrames(fault.kind, strikeAt)) await write(frameBytes(frame, framing));
  }
  await strike(delivery, fault);
  return "cut";
}

async function strike(delivery: Delivery, fault: Fault): Promise<void> {
  const { response } = delivery;
  if (fault.kind === "stall" || fault.kind === "silence") await forever(delivery);
  else if (fault.kind === "end-early" || endsWithError(fault)) response.end();
  else if (fault.kind === "reset") response.socket?.resetAndDestroy();
  else response.socket?.destroy();
}

function endsWithError({ kind }: Fault): boolean {
  return kind === "error-event" || kind === "failed-event" || kind === "lone-error-event";
}

function halfOf(bytes: Buffer): Buffer {
  return bytes.subarray(0, bytes.length >> 1);
}

function plainWriter(delivery: Delivery): (bytes: Buffer | undefined) => Promise<void> {
  const { response } = delivery;
  return (bytes) => (bytes ? written(delivery, (done) => response.write(bytes, done)) : finish(delivery, undefined));
}

// Flushed after every frame, as a provider that compresses streams must do.
function gzipWriter(delivery: Delivery): (bytes: Buffer | undefined) => Promise<void> {
  const gzip = createGzip();
  gzip.pipe(delivery.response);
  return (bytes) =>
    written(delivery, (done) => {
      if (bytes) gzip.write(bytes, () => gzip.flush(constants.Z_SYNC_FLUSH, () => done()));
      else gzip.end(() => delivery.response.once("finish", () => done()));
    });
}

function finish(delivery: Delivery, lastBytes: Buffer | undefined): Promise<void> {
  const { response } = delivery;
  return written(delivery, (done) => (lastBytes ? response.end(lastBytes, () => done()) : response.end(() => done())));
}

function forever(delivery: Delivery): Promise<never> {
  return written(delivery, () => undefined) as Promise<never>;
}

// Settles when the write reached the system, or rejects when the connection went first.
function written({ gone }: Delivery, start: (done: (error?: Error | null) => void) => unknown): Promise<void> {
  return new Promise((resolve, reject) => {
    const onGone = (): void => reject(new ConnectionGoneError("it went before the write reached the system"));
    if (gone.aborted) return onGone();
    gone.addEventListener("abort", onGone, { once: true });
    start((error) => {
      gone.removeEventListener("abort", onGone);
      // A write into a connection that the other side has reset fails before the close is told.
      if (error) reject(new ConnectionGoneError("the write failed", { cause: error }));
      else resolve();
    });
  });
}
