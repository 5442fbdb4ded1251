import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

// Node takes 64 KiB of a connection at once, and tells of all that is in it before anything else runs: a thousand
// requests, or ten thousand chunks of a body. What stands here are handles of its parser that it does not document;
// should they be gone one day, such a piece takes some 20 ms again.

/** Such as Fastify. */
type Served = { server: Server; routing: (request: IncomingMessage, response: ServerResponse) => void };

type OwnParser = { parser?: { onIncoming?: unknown; [callback: number]: unknown } | null };

/** What its parser takes for "the connection goes on in another protocol": nothing more is read. */
const isAnotherProtocol = 2;
/** The place of the callback that is told of a body's pieces. */
const onBody = 3;

// Clients of today send one request after the other.
const maxWaiting = 2;
const waiting = new WeakMap<Socket, number>();

/** Ends a connection, with the requests that were already received on it. */
function endAtOnce(socket: Socket): void {
  const { parser } = socket as OwnParser;
  if (parser) parser.onIncoming = () => isAnotherProtocol;
  socket.destroy();
}

/**
 * Whether a request may be served: not one of many behind an answer that is still to come on its connection, which ends
 * then.
 */
function isInTurn({ socket }: IncomingMessage, response: ServerResponse): boolean {
  if (socket.destroyed) return false;
  // Node gives the connection to the answer that is next.
  if (response.socket) return true;
  const count = (waiting.get(socket) ?? 0) + 1;
  if (count > maxWaiting) {
    endAtOnce(socket);
    return false;
  }
  waiting.set(socket, count);
  response.once("close", () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1));
  return true;
}

/**
 * Has requests served that are in turn, and no longer by who has listened to them: Fastify's own listener serves every
 * one. Whoever else wants to hear of requests begins after this.
 */
export function serveInTurn(app: Served, events: readonly string[] = ["request"]): void {
  app.server.removeAllListeners("request");
  for (const event of events) {
    app.server.on(event, (request: IncomingMessage, response: ServerResponse) => {
      if (isInTurn(request, response)) app.routing(request, response);
    });
  }
}

/** Lets go of what has come of a body and parses no more of it; behind its answer the connection ends. */
export function forgetBody(socket: Socket | undefined): void {
  socket?.removeAllListeners("data").on("data", () => undefined);
  const { parser } = (socket ?? {}) as OwnParser;
  const before = parser?.[onBody];
  if (!parser || typeof before !== "function") return;
  parser[onBody] = undefined;
  // Before a connection closes, whose parser another one gets as it is.
  setImmediate(() => (parser[onBody] = before));
}
