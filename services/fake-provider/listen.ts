import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { Duplex } from "node:stream";
import { freePort } from "../shared/testing/free-port.ts";

export type ListenOptions = {
  /** Base address without a path. */
  url: string;
  port: number;
  /** Breaks all connections and refuses new ones. */
  close: () => Promise<void>;
  /** Listens again on the same port. */
  reopen: () => Promise<void>;
};

type ListenWishes = {
  host?: string | undefined;
  port?: number | undefined;
  /** Takes requests for another protocol. */
  onUpgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
};

/** Listens on `port` of `host`; 0 or left out: any free port of 127.0.0.1. */
export async function listenFake(
  handler: RequestListener,
  { host = "127.0.0.1", port: wanted, onUpgrade }: ListenWishes,
): Promise<ListenOptions> {
  const server = createServer(handler);
  const upgraded = new Set<Duplex>();
  if (onUpgrade) {
    server.on("upgrade", (request, socket, head) => {
      upgraded.add(socket);
      socket.once("close", () => upgraded.delete(socket));
      onUpgrade(request, socket, head);
    });
  }
  // Callers keep connections for reuse; one that closes under them at rest would look like a fault nobody scripted.
  server.keepAliveTimeout = 600_000;
  server.requestTimeout = 0;
  const port = wanted || (await bindFreePort(server, host));
  if (!server.listening) await listen(server, host, port);
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    for (const socket of upgraded) socket.destroy();
    await closed;
  };
  return { url: `http://${host}:${port}`, port, close, reopen: () => listen(server, host, port) };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host, exclusive: true }, () => {
      server.removeListener("error", reject);
      resolve();
    });
  });
}

// A port outside the range of outgoing connections, so that it is still free when the server reopens.
async function bindFreePort(server: Server, host: string): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    try {
      await listen(server, host, port);
      return port;
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}
