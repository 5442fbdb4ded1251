import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Server as TlsServer } from "node:tls";
import { createActiveSet } from "./active-set.ts";

declare module "fastify" {
  interface FastifyInstance {
    connections: Connections;
  }
}

/** The connections of callers to an HTTP server. */
export type Connections = {
  /**
   * From now on every answer whose head is still to come says that its connection closes behind it, and the server
   * closes no idle connection by itself: Node would do that in the moment in which it stops listening, and break the
   * call of whoever has just sent something.
   */
  leave: () => void;
  /** Closes those that are open for nothing: nothing was asked or sent on them for `quietMs`, nor since `leave`. */
  closeQuiet: (quietMs: number) => void;
  /** A connection that does not speak HTTP any more: whoever has it closes it. */
  letGo: (socket: Socket) => void;
  /** The requests that are being answered or received. */
  requests: () => IncomingMessage[];
  count: () => number;
  /** Closes all of them at once, whatever is under way. */
  breakAll: () => void;
};

type Connection = {
  socket: Socket;
  answering: number;
  /** The answer to what was asked last. */
  last: ServerResponse | undefined;
  bytesRead: number;
  quietSince: number;
};

/** Follows the connections of a server from its start. */
export function followConnections(server: Server): Connections {
  const connections = new Map<Socket, Connection>();
  const underWay = createActiveSet<{ activeIndex: number; request: IncomingMessage }>();
  const sockets = new Set<Socket>();
  let leftAt = Infinity;
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on(server instanceof TlsServer ? "secureConnection" : "connection", (socket: Socket) => {
    const { bytesRead } = socket;
    connections.set(socket, { socket, answering: 0, last: undefined, bytesRead, quietSince: performance.now() });
    socket.once("close", () => connections.delete(socket));
  });
  const follow = (request: IncomingMessage, response: ServerResponse): void => {
    const connection = connections.get(request.socket);
    if (!connection) return;
    if (leftAt !== Infinity) announceClose(connection, response);
    connection.last = response;
    const entry = { activeIndex: -1, request };
    underWay.add(entry);
    connection.answering += 1;
    response.on("close", () => {
      underWay.delete(entry);
      connection.answering -= 1;
      connection.quietSince = performance.now();
    });
  };
  for (const event of ["request", "checkContinue", "checkExpectation"]) server.prependListener(event, follow);
  return {
    leave: () => {
      leftAt = performance.now();
      server.closeIdleConnections = () => undefined;
      for (const { last } of connections.values()) if (last?.headersSent === false) last.shouldKeepAlive = false;
    },
    closeQuiet: (quietMs) => {
      for (const connection of connections.values()) if (isQuiet(connection, leftAt, quietMs)) close(connection);
    },
    letGo: (socket) => void connections.delete(socket),
    requests: () => Array.from(underWay, ({ request }) => request),
    count: () => connections.size,
    breakAll: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Has an answer say that the connection closes, instead of the one before it, behind which Node would close. */
function announceClose({ last }: Connection, response: ServerResponse): void {
  if (last?.headersSent === false) last.shouldKeepAlive = true;
  response.shouldKeepAlive = false;
}

function isQuiet(connection: Connection, leftAt: number, quietMs: number): boolean {
  const { socket, answering } = connection;
  if (answering > 0) return false;
  const now = performance.now();
  // Part of a head, of which Node says nothing yet.
  if (socket.bytesRead !== connection.bytesRead) connection.quietSince = now;
  connection.bytesRead = socket.bytesRead;
  return now - Math.max(connection.quietSince, leftAt) >= quietMs;
}

const close = ({ socket }: Connection): void => socket.destroySoon();
