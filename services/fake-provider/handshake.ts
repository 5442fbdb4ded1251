import type { Duplex } from "node:stream";
import { randomId } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import { renderError } from "./errors.ts";

/** Answers a handshake over HTTP, as providers do that open no socket. */
export function refuseHandshake(socket: Duplex, status: number, message: string, behaviour: Behaviour = {}): void {
  const override = { message, ...behaviour.error };
  const body = renderError("chat", { status, override, requestId: randomId("req_", 24) });
  const length = Buffer.byteLength(body);
  socket.end(`HTTP/1.1 ${status} No\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`);
}
