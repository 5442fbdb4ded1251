import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { collectDefaultMetrics, Registry } from "prom-client";
import manifest from "../../../package.json" with { type: "json" };
import { declareDropped, gauges } from "./metrics.ts";
import { metricsText, openMetricsType, plainType } from "./text.ts";

/** Tells why a service cannot take work now; an empty list means ready. */
export type ReadyCheck = () => string[];

export type OpsListener = AsyncDisposable & { port: number };

/** The metrics of one service. */
export type ServiceRegistry = Registry & { service: string };

// Gauges by whose names they would be counters; and counting thousands of sockets takes its time.
const leftOut = /^nodejs_active_/;

/** A registry with Node's own metrics (event loop lag, heap, GC) under the usual names. */
export function createRegistry(service: string): ServiceRegistry {
  const registry = new Registry();
  registry.setDefaultLabels({ service });
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray()) if (leftOut.test(name)) registry.removeSingleMetric(name);
  declareDropped(registry);
  const build = gauges(registry, {
    name: "model_relay_build_info",
    help: "Always 1; the labels are the running version and its Node.js version.",
    labels: ["version", "node_version"],
  });
  build.set({ version: manifest.version, node_version: process.version }, 1);
  return Object.assign(registry, { service });
}

/**
 * Serves /livez (the event loop turns), /readyz (503 with reasons, one per line; with `notes` when ready) and /metrics
 * (as Prometheus text, or as OpenMetrics with exemplars where that is asked for) on a port of its own, apart from the
 * callers' one.
 */
export async function serveOps(
  { host, port }: { host: string; port: number },
  registry: ServiceRegistry,
  notReadyReasons: ReadyCheck,
  notes: () => string[] = () => [],
): Promise<OpsListener> {
  const { service } = registry;
  const server = createServer((request, response) => {
    const answer = (status: number, text: string, type = "text/plain; charset=utf-8"): void => {
      response.writeHead(status, { "content-type": type }).end(text);
    };
    if (request.url === "/livez") return answer(200, "ok\n");
    if (request.url === "/readyz") {
      const reasons = notReadyReasons();
      return reasons.length === 0
        ? answer(200, ["ok", ...notes(), ""].join("\n"))
        : answer(503, `${reasons.join("\n")}\n`);
    }
    if (request.url === "/metrics") {
      const isOpenMetrics = request.headers.accept?.includes("application/openmetrics-text") ?? false;
      metricsText(registry, { service, isOpenMetrics }).then(
        (text) => answer(200, text, isOpenMetrics ? openMetricsType : plainType),
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
