import type { Registry } from "prom-client";
import { counters, histograms } from "#shared/metrics/metrics.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** What the console counts; the README's table says what each means to an operator. */
export function createMetrics(registry: Registry) {
  return {
    requests: histograms(registry, {
      name: "console_request_duration_seconds",
      help: "Duration of requests, by path pattern and status.",
      labels: ["method", "path", "status"],
      // Callers may name any method.
      unboundedLabels: ["method", "path"],
      maxSeries: 600,
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    }),
    signIns: counters(registry, {
      name: "console_sign_ins_total",
      help: "Sign-in attempts, by outcome.",
      labels: ["outcome"],
    }),
    topUps: counters(registry, {
      name: "console_top_ups_total",
      help: "Payments, by provider and outcome.",
      labels: ["provider", "outcome"],
    }),
  };
}
