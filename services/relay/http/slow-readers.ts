import type { Server } from "node:http";
import type { Socket } from "node:net";
import { Server as TlsServer } from "node:tls";
import type { Logger } from "#shared/process/log.ts";

/** What a caller must read of what waits for him: this fast, and so long besides. */
const readingLimits = { patienceMs: 60_000, leastBytesPerSecond: 8_192 };

/** Since when something waits for a caller, and how much he had read by then. */
type Waiting = { sinceMs: number; readBytes: number };

/**
 * Follows the connections of a server; gives the look that breaks those whose callers read too slowly, and tells how
 * many. What waits is in memory, whether its answer is still under way or over: else a byte a second would keep it
 * there for hours. Costs the path of a call nothing.
 */
export function followReaders(server: Server, limits = readingLimits): (nowMs?: number) => number {
  const sockets = new Map<Socket, Waiting | undefined>();
  server.on(server instanceof TlsServer ? "secureConnection" : "connection", (socket: Socket) => {
    sockets.set(socket, undefined);
    socket.once("close", () => sockets.delete(socket));
  });
  return (nowMs = performance.now()) => {
    let broken = 0;
    for (const [socket, waiting] of sockets) {
      const { writableLength, bytesWritten } = socket;
      const readBytes = bytesWritten - writableLength;
      if (writableLength === 0) sockets.set(socket, undefined);
      else if (!waiting) sockets.set(socket, { sinceMs: nowMs, readBytes });
      else if (nowMs - waiting.sinceMs > timeFor(Math.max(0, readBytes - waiting.readBytes) + writableLength, limits)) {
        broken += 1;
        sockets.delete(socket);
        socket.destroy();
      }
    }
    return broken;
  };
}

// Of a large piece nobody is told how much of it is read: so what waits counts as well.
const timeFor = (bytes: number, { patienceMs, leastBytesPerSecond }: typeof readingLimits): number =>
  patienceMs + (bytes / leastBytesPerSecond) * 1_000;

/** The same for a server that is watched; the log says how many were broken. */
export function breakSlowReaders(server: Server, log: Logger): () => Promise<void> {
  const look = followReaders(server);
  return async () => {
    const broken = look();
    if (broken > 0) log.warn({ connections: broken }, "callers read too slowly: their connections are broken");
  };
}
