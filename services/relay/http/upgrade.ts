import { ServerResponse, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import { isSocketPath, pathOf } from "./paths.ts";

/**
 * Whether a request asks for a WebSocket where there is one. All other offers of another protocol are left alone, as
 * HTTP has it: some clients send `Upgrade: h2c` with every request, and are served over HTTP/1.1.
 */
export const isSocketRequest = ({ method, headers, url = "" }: IncomingMessage): boolean =>
  method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && isSocketPath(pathOf(url));

// What came behind the head of a request for a WebSocket.
const heads = new WeakMap<IncomingMessage, Buffer>();

/** What came behind the head of such a request; undefined for any other. */
export const headOfUpgrade = (request: IncomingMessage): Buffer | undefined => heads.get(request);

const ignore = (): void => undefined;

/** Sends requests for a WebSocket the way of all others, so that they are looked at, and refused, like these. */
export function routeUpgrades(app: FastifyInstance): void {
  const { server, connections } = app;
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    // Node has let go of the socket, so nobody else listens.
    socket.on("error", ignore);
    connections.letGo(socket);
    const response = new ServerResponse(request);
    try {
      response.assignSocket(socket);
    } catch {
      // An answer before it on the same connection is still being written.
      return void socket.destroy();
    }
    heads.set(request, head);
    response.once("finish", () => socket.destroySoon());
    response.setHeader("connection", "close");
    app.routing(request, response);
  });
}
