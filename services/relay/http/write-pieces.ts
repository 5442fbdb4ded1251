import type { CallResponse } from "./exchange.ts";

// Copying more at once costs more than the writes that it spares.
const maxFramedBytes = 32_768;
// Eight digits and two ends of line.
const frameBytes = 12;
const cr = 13;
const lf = 10;
const hexDigits = Buffer.from("0123456789abcdef");

/** One chunk of the chunked encoding that holds all pieces. */
function frame(pieces: readonly Buffer[], length: number): Buffer {
  const framed = Buffer.allocUnsafe(length + frameBytes);
  let shift = 0;
  while (length >> (shift + 4) > 0) shift += 4;
  let at = 0;
  for (; shift >= 0; shift -= 4) framed[at++] = hexDigits[(length >> shift) & 15] ?? 0;
  framed[at++] = cr;
  framed[at++] = lf;
  for (const piece of pieces) {
    framed.set(piece, at);
    at += piece.length;
  }
  framed[at++] = cr;
  framed[at++] = lf;
  return framed.subarray(0, at);
}

/** Writes pieces of one answer's body. */
export type PieceWriter = {
  /** Writes a piece in this turn; tells whether the caller keeps up. */
  write(piece: Buffer): boolean;
  /** Writes the last pieces and ends the answer, all at once. */
  end(pieces: readonly Buffer[], last: string): void;
};

class SocketWriter implements PieceWriter {
  private readonly response: CallResponse;
  private waiting: Buffer[] = [];
  private bytes = 0;

  constructor(response: CallResponse) {
    this.response = response;
  }

  write(piece: Buffer): boolean {
    if (!this.hasRoom(piece.length)) {
      this.flush();
      return this.response.write(piece);
    }
    if (this.bytes === 0) process.nextTick(SocketWriter.flushLater, this);
    this.waiting.push(piece);
    this.bytes += piece.length;
    return true;
  }

  end(pieces: readonly Buffer[], last: string): void {
    // node:http takes the cork out when an answer ends.
    this.response.socket?.cork();
    for (const piece of pieces) this.write(piece);
    this.flush();
    this.response.end(last);
  }

  private hasRoom(length: number): boolean {
    const { socket, chunkedEncoding, writableEnded } = this.response;
    // An answer that must wait for one before it on the same connection has no socket.
    if (!socket?.writable || !chunkedEncoding || writableEnded) return false;
    const all = this.bytes + length + frameBytes;
    return all <= maxFramedBytes && socket.writableLength + all < socket.writableHighWaterMark;
  }

  private flush(): void {
    if (this.bytes === 0) return;
    const framed = frame(this.waiting, this.bytes);
    this.waiting = [];
    this.bytes = 0;
    const { socket } = this.response;
    if (socket?.writable) socket.write(framed);
  }

  private static flushLater(this: void, writer: SocketWriter): void {
    writer.flush();
  }
}

/**
 * Makes a writer for an answer whose head is out. node:http makes four writes of each piece, which is more work than
 * all the rest of a small one: the small ones of a turn go to the socket as one chunk, wherever the socket is this
 * answer's and has room, so that node:http's own accounts of what waits stay right.
 */
export function createPieceWriter(response: CallResponse): PieceWriter {
  return new SocketWriter(response);
}
