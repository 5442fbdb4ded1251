import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";

/** What a caller asks, as far as a call reads it: a request of HTTP, or a turn on a WebSocket. */
export type CallRequest = Readable &
  Pick<IncomingMessage, "headers" | "httpVersion" | "complete"> &
  Partial<Pick<IncomingMessage, "socket">>;

/** Where the answer to it is written: Node's own response is one. */
export type CallResponse = Writable & {
  statusCode: number;
  shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  readonly chunkedEncoding: boolean;
  /** Null where the answer shares its connection with others. */
  readonly socket: Socket | null;
  readonly ["req"]: Pick<IncomingMessage, "complete" | "resume" | "once">;
  setHeader(name: string, value: string): unknown;
  writeHead(status: number, headers: Record<string, string | number>): Pick<CallResponse, "end" | "flushHeaders">;
  writeContinue(): void;
  flushHeaders(): void;
};
