import type { Registry } from "prom-client";
import {
  createMetrics as createAuthQuotaMetrics,
  watchSessions,
  watchMoves,
  watchShards,
} from "../../services/auth-quota/metrics.ts";
import { createMetrics as createBillingMetrics } from "../../services/billing/metrics.ts";
import { createMetrics as createConsoleMetrics } from "../../services/console/metrics.ts";
import { watchCatalog } from "../../services/relay/catalog/gauges.ts";
import { watchModels, watchUpstreams } from "../../services/relay/upstream/gauges.ts";
import { createMetrics as createRelayMetrics, watchGauges } from "../../services/relay/metrics.ts";
import { expiryGauge } from "../../services/shared/stores/certificate.ts";
import { grpcMetrics } from "../../services/shared/grpc/metrics.ts";
import { familyOf } from "../../services/shared/metrics/family.ts";
import { createRegistry } from "../../services/shared/metrics/ops.ts";
import {
  createMetrics as createVideoTaskMetrics,
  watchCatalog as watchVideoCatalog,
} from "../../services/video-task/metrics.ts";

/** A metric of a service. Each has the label `service` beside its own. */
export type CataloguedMetric = {
  service: string;
  name: string;
  type: "counter" | "gauge" | "histogram" | "summary";
  help: string;
  labels: readonly string[];
};

const nothing = (): number => 0;

function declareRelay(registry: Registry): void {
  createRelayMetrics(registry);
  watchUpstreams(registry, { list: () => [] });
  watchModels(registry, { look: () => ({ underWay: 0, circuit: "closed" }) }, () => []);
  watchCatalog(registry, { file: () => ({ contentHash: "" }), isStale: () => false });
  watchGauges(registry, {
    liveCalls: nothing,
    orphans: nothing,
    isDraining: () => false,
    isQuotaConnected: () => false,
    clockAheadMs: nothing,
    spoolBytes: nothing,
    spoolMaxBytes: nothing,
    spoolRecords: nothing,
    spoolOldestMs: nothing,
    publishWaiting: nothing,
    publishOldestMs: nothing,
    quotaQueued: nothing,
    leases: nothing,
    bodyBytes: nothing,
    threadWaiting: nothing,
    replyBytes: nothing,
    repliesWaiting: nothing,
    submissions: nothing,
    downloads: nothing,
  });
  grpcMetrics(registry);
}

const declarations: Record<string, (registry: Registry) => void> = {
  relay: declareRelay,
  "auth-quota": (registry) => {
    createAuthQuotaMetrics(registry);
    watchSessions(registry, nothing);
    watchShards(registry, []);
    watchMoves(registry, () => 0);
    grpcMetrics(registry);
  },
  billing: (registry) => {
    createBillingMetrics(registry);
    grpcMetrics(registry);
  },
  "video-task": (registry) => {
    createVideoTaskMetrics(registry);
    watchVideoCatalog(registry, { isStale: () => false });
    grpcMetrics(registry);
  },
  console: createConsoleMetrics,
};

// What prom-client's types leave out.
type DeclaredMetric = { name: string; help: string; type: unknown; labelNames?: readonly string[] };

/** Every metric that any service has, as the services declare them. */
export function catalogue(): CataloguedMetric[] {
  return Object.entries(declarations).flatMap(([service, declare]) => {
    const registry = createRegistry(service);
    declare(registry);
    expiryGauge(registry, "grpc");
    return registry.getMetricsAsArray().map((metric) => {
      const { name, help, type, labelNames = [] } = metric as unknown as DeclaredMetric;
      const labels = familyOf(metric)?.labels ?? labelNames;
      return { service, name, type: type as CataloguedMetric["type"], help, labels };
    });
  });
}

/** The names under which Prometheus keeps a metric. */
export function sampleNames({ name, type }: Pick<CataloguedMetric, "name" | "type">): string[] {
  return type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
}
