import type { Registry } from "prom-client";
import { gauges } from "#shared/metrics/metrics.ts";
import { mostUpstreams } from "../metrics.ts";
import type { CircuitState, UpstreamHealth } from "./health.ts";

const circuitValues: Record<CircuitState, number> = { closed: 0, "half-open": 1, open: 2 };

/** Declares the gauges of the upstreams that were asked since the catalog last changed them. */
export function watchUpstreams(registry: Registry, { list }: Pick<UpstreamHealth, "list">): void {
  const declare = (name: string, help: string, value: (upstream: ReturnType<typeof list>[number]) => number): void => {
    gauges(registry, {
      name,
      help,
      labels: ["upstream"],
      unboundedLabels: ["upstream"],
      maxSeries: mostUpstreams,
      read: (set) => {
        for (const upstream of list(performance.now())) set({ upstream: upstream.name }, value(upstream));
      },
    });
  };
  declare("relay_upstream_circuit", "0: closed; 1: half open; 2: open.", ({ circuit }) => circuitValues[circuit]);
  declare("relay_upstream_live_calls", "Calls under way at an upstream.", ({ underWay }) => underWay);
}
