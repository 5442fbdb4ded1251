import type { Connections } from "./connections.ts";

export type EndOptions = {
  connections: Connections;
  /** Stops listening; resolves when no connection is left. */
  close: () => Promise<unknown>;
  /** How long what is under way may go on. */
  drainMs: number;
  /** Called when that is over, and again and again for what is begun after it: ends what is under way. */
  cut: () => void;
};

const sweepMs = 50;
const maxLingerMs = 5_000;
const lastBytesMs = 3_000;

/**
 * Ends an HTTP server without breaking a call: requests on open connections are still served, and their responses say
 * that the connection closes. We close a connection once it was idle for a tenth of `drainMs`, at most 5 s; a caller
 * that uses it more often has been told by then. After `drainMs`, remaining calls are cut; callers that do not read
 * their last bytes within 3 s are dropped.
 */
export async function endServing({ connections, close, drainMs, cut }: EndOptions): Promise<void> {
  const lingerMs = Math.min(maxLingerMs, drainMs / 10);
  const overAt = performance.now() + drainMs;
  connections.leave();
  const lingered = Promise.withResolvers<void>();
  const lingering = setTimeout(lingered.resolve, lingerMs);
  const sweeping = setInterval(() => {
    if (connections.count() === 0) lingered.resolve();
    const isOver = performance.now() >= overAt;
    if (isOver) cut();
    connections.closeQuiet(isOver ? Math.min(lingerMs, sweepMs) : lingerMs);
  }, sweepMs);
  const breaking = setTimeout(() => connections.breakAll(), drainMs + lastBytesMs);
  if (connections.count() > 0) await lingered.promise;
  clearTimeout(lingering);
  await close();
  clearInterval(sweeping);
  clearTimeout(breaking);
}
