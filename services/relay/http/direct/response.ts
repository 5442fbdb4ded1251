import { EventEmitter } from "node:events";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { DirectRequest } from "./request.ts";

// What Node refuses as a header's value (RFC 9110, Field Values): a line break would begin another header.
const impossible = /[^\t\x20-\x7e\x80-\xff]/;
const lastChunk = "0\r\n\r\n";
// Copying more at once costs more than the write that it spares.
const maxJoinedBytes = 16_384;

let dateSecond = 0;
let dateText = "";

function dateOfNow(): string {
  const second = Math.floor(Date.now() / 1_000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = new Date(second * 1_000).toUTCString();
  }
  return dateText;
}

/** What a response needs of its connection. */
export type DirectLine = {
  socket: Socket;
  /** What the server says of how long it keeps a connection open, in seconds. */
  keepAliveSeconds: number;
  /** Called once all of the answer is with the kernel. */
  onFinished: (shouldKeepAlive: boolean) => void;
};

/**
 * The answer to a request, as far as the relay and Fastify use one of Node's, with the same bytes on the wire and the
 * same events: `finish` once all is written out, `drain`, and `close` behind the end or the loss of the connection.
 */
export class DirectResponse extends EventEmitter {
  statusCode = 200;
  shouldKeepAlive = true;
  chunkedEncoding = false;
  headersSent = false;
  writableEnded = false;
  writableFinished = false;
  destroyed = false;
  closed = false;
  socket: Socket | null;
  readonly ["req"]: DirectRequest;
  private readonly line: DirectLine;
  private readonly set: Record<string, string> = {};
  /** A head that waits for the first bytes of the body. */
  private head = "";

  constructor(request: DirectRequest, line: DirectLine) {
    super();
    this["req"] = request;
    this.line = line;
    this.socket = line.socket;
  }

  get writable(): boolean {
    return !this.destroyed && !this.writableEnded;
  }

  setHeader(name: string, value: string): this {
    const lower = name.toLowerCase();
    if (lower === "connection") this.shouldKeepAlive = value.toLowerCase() !== "close";
    else this.set[lower] = value;
    return this;
  }

  /** Throws a TypeError for a value that no header can have. */
  writeHead(status: number, given: Record<string, string | number>): this {
    this.statusCode = status;
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n`;
    const headers: Record<string, string | number> = { ...this.set, ...given };
    for (const name in headers) {
      const value = `${headers[name]}`;
      if (impossible.test(value)) throw new TypeError(`the value of header ${name} has a character that none can have`);
      text += `${name}: ${value}\r\n`;
    }
    this.chunkedEncoding = headers["content-length"] === undefined;
    text += `Date: ${dateOfNow()}\r\n`;
    text += this.shouldKeepAlive
      ? `Connection: keep-alive\r\nKeep-Alive: timeout=${this.line.keepAliveSeconds}\r\n`
      : "Connection: close\r\n";
    this.head = this.chunkedEncoding ? `${text}Transfer-Encoding: chunked\r\n\r\n` : `${text}\r\n`;
    this.headersSent = true;
    return this;
  }

  writeContinue(): void {
    // A request with an expectation is Node's.
  }

  flushHeaders(): void {
    if (this.head === "" || !this.socket?.writable) return;
    this.socket.write(this.head, "latin1");
    this.head = "";
  }

  /** Tells whether the caller keeps up. */
  write(piece: Buffer | string): boolean {
    const { socket } = this;
    if (!socket?.writable || this.writableEnded || piece.length === 0) return false;
    this.flushHeaders();
    if (!this.chunkedEncoding) return socket.write(piece);
    socket.cork();
    socket.write(`${Buffer.byteLength(piece).toString(16)}\r\n`, "latin1");
    socket.write(piece);
    const isFlowing = socket.write("\r\n", "latin1");
    process.nextTick(uncork, socket);
    return isFlowing;
  }

  end(last?: Buffer | string): this {
    const { socket } = this;
    if (this.writableEnded) return this;
    this.writableEnded = true;
    if (!socket?.writable) return this;
    const onWritten = (error?: Error | null): void => (error ? undefined : this.finish());
    if (this.chunkedEncoding) {
      const text = last ?? "";
      const size = Buffer.byteLength(text);
      const bytes = Buffer.isBuffer(text) ? text.toString("latin1") : Buffer.from(text).toString("latin1");
      const chunk = size === 0 ? "" : `${size.toString(16)}\r\n${bytes}\r\n`;
      socket.write(`${this.takeHead()}${chunk}${lastChunk}`, "latin1", onWritten);
    } else this.endSized(socket, last ?? "", onWritten);
    while (socket.writableCorked > 0) socket.uncork();
    return this;
  }

  destroy(): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    this.socket?.destroy();
    return this;
  }

  /** To be called when the connection is gone: nobody reads what was not finished. */
  lose(): void {
    if (this.closed) return;
    this.destroyed = true;
    this.close();
  }

  private endSized(socket: Socket, last: Buffer | string, onWritten: (error?: Error | null) => void): void {
    const head = this.takeHead();
    if (typeof last === "string" && last === "") return void socket.write(head, "latin1", onWritten);
    const body = typeof last === "string" ? Buffer.from(last) : last;
    if (head === "" || body.length > maxJoinedBytes) {
      socket.cork();
      if (head !== "") socket.write(head, "latin1");
      return void socket.write(body, onWritten);
    }
    const joined = Buffer.allocUnsafe(head.length + body.length);
    joined.write(head, 0, "latin1");
    joined.set(body, head.length);
    socket.write(joined, onWritten);
  }

  private takeHead(): string {
    const { head } = this;
    this.head = "";
    return head;
  }

  private finish(): void {
    if (this.closed) return;
    this.writableFinished = true;
    this.emit("finish");
    this.destroyed = true;
    this.close();
    this.line.onFinished(this.shouldKeepAlive);
  }

  private close(): void {
    this.closed = true;
    this.socket = null;
    this.emit("close");
  }
}

function uncork(socket: Socket): void {
  socket.uncork();
}
