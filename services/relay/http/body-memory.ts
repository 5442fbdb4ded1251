import { getDefaultHighWaterMark, type Readable } from "node:stream";

/** A body from here on is given back as soon as nobody needs it; a socket that takes it in one write is then full. */
export const largeBodyBytes = getDefaultHighWaterMark(false);

// How many sendings may still read a memory, by its memory.
const sendings = new WeakMap<ArrayBufferLike, number>();

const count = ({ buffer }: Buffer, change: number): void => {
  sendings.set(buffer, (sendings.get(buffer) ?? 0) + change);
};

async function* untilWritten(body: Buffer): AsyncGenerator<Buffer, void> {
  yield body;
  // A full socket asks for more when all was written. One that failed does so when it has closed, or never.
  count(body, -1);
}

/**
 * A large body in the form in which undici tells when it was written; until then its memory stays as it is. It may be
 * sent several times; a sending that nobody begins keeps the memory for the collector.
 */
export function beginSending(body: Buffer): Readable {
  count(body, 1);
  // undici takes every iterable; its types name the streams only.
  return untilWritten(body) as unknown as Readable;
}

/**
 * Gives the memory of a large body back; what is read of it afterwards is empty. Left to the collector, megabytes
 * outside of the heap make it look through all of the heap several times a second. A body that a socket may still be
 * writing is left to it all the same, because the system would send what comes to lie there next.
 */
export function releaseBuffer(body: Buffer): void {
  if (body.length < largeBodyBytes) return;
  const { buffer } = body;
  if ((sendings.get(buffer) ?? 0) > 0) return;
  // Anything smaller than its memory shares it.
  if (buffer instanceof ArrayBuffer && body.length === buffer.byteLength) buffer.transfer(0);
}
