import type { Registry } from "prom-client";
import { gauges } from "#shared/metrics/metrics.ts";
import { mostUpstreams } from "../metrics.ts";
import type { Model } from "../catalog/models.ts";
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

// More than that at once is told by AllUpstreamsDown.
const shownModels = 100;

/** Declares the gauge of models none of whose routes can be asked now. */
export function watchModels(
  registry: Registry,
  { look }: Pick<UpstreamHealth, "look">,
  models: () => Iterable<Model>,
): void {
  gauges(registry, {
    name: "relay_model_without_route",
    help: "1 for each model whose upstreams all have an open circuit or cool down; at most 100 models.",
    labels: ["model"],
    unboundedLabels: ["model"],
    maxSeries: shownModels,
    read: (set) => {
      const nowMs = performance.now();
      let shown = 0;
      for (const { id, routes } of models()) {
        if (shown >= shownModels) return;
        const isClosed = routes.every(({ upstream, model }) => isShut(look(upstream, [model], nowMs).circuit));
        if (!isClosed) continue;
        shown += 1;
        set({ model: id }, 1);
      }
    },
  });
}

const isShut = (circuit: CircuitState | "cooling-down"): boolean => circuit === "open" || circuit === "cooling-down";
