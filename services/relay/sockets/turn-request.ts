import type { IncomingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import type { CallRequest } from "../http/exchange.ts";

// What said how the socket is opened, and nothing of its turns.
const ofTheConnection = new Set([
  "connection",
  "content-encoding",
  "expect",
  "host",
  "idempotency-key",
  "transfer-encoding",
  "upgrade",
]);

/** The headers that a turn has from the request that opened its socket. */
export function turnHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const kept = Object.entries(headers).filter(
    ([name]) => !ofTheConnection.has(name) && !name.startsWith("sec-websocket-"),
  );
  return { ...Object.fromEntries(kept), "content-type": "application/json" };
}

/** A turn as a caller's request, all of whose body is here. */
export class TurnRequest extends Readable implements CallRequest {
  readonly headers: IncomingHttpHeaders;
  readonly httpVersion = "1.1";
  readonly complete = true;

  constructor(headers: IncomingHttpHeaders, body: Buffer) {
    super({ highWaterMark: body.length + 1 });
    this.headers = { ...headers, "content-length": String(body.length) };
    this.push(body);
    this.push(null);
  }

  override _read(): void {
    // All of it was pushed.
  }
}
