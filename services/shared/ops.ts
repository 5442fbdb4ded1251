import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { collectDefaultMetrics, Registry } from "prom-client";

/** Tells why a service cannot take work now; an empty list means ready. */
export type ReadyCheck = () => string[];

export type OpsListener = AsyncDisposable & { port: number };

/** A registry with Node's own metrics (event loop lag, heap, GC) under the usual names. */
export function createRegistry(service: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ service });
  collectDefaultMetrics({ register: registry });
  return registry;
}

/**
 * Serves /livez (the event loop turns), /readyz (503 with reasons, one per line) and /metrics (Prometheus text)
 * on a port of its own, apart from the callers' one.
 */
export async function serveOps(
  { host, port }: { host: string; port: number },
  registry: Registry,
  notReadyReasons: ReadyCheck,
): Promise<OpsListener> {
  const server = createServer((request, response) => {
    const answer = (status: number, text: string, type = "text/plain; charset=utf-8"): void => {
      response.writeHead(status, { "content-type": type }).end(text);
    };
    if (request.url === "/livez") return answer(200, "ok\n");
    if (request.url === "/readyz") {
      const reasons = notReadyReasons();
      return reasons.length === 0 ? answer(200, "ok\n") : answer(503, `${reasons.join("\n")}\n`);
    }
    if (request.url === "/metrics") {
      registry.metrics().then(
        (text) => answer(200, text, registry.contentType),
        () => answer(500, "metrics failed\n"),
      );
      return;
    }
    answer(404, "not found\n");
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
