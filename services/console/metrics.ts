import { Counter, Histogram, type Registry } from "prom-client";

export type Metrics = ReturnType<typeof createMetrics>;

/** What the console counts; the README's table says what each means to an operator. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  return {
    requests: new Histogram({
      name: "console_request_duration_seconds",
      help: "Time to answer a request, by pattern of the path and status.",
      labelNames: ["method", "path", "status"] as const,
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
      registers,
    }),
    signIns: new Counter({
      name: "console_sign_ins_total",
      help: "Tries to sign in, by outcome.",
      labelNames: ["outcome"] as const,
      registers,
    }),
    topUps: new Counter({
      name: "console_top_ups_total",
      help: "Payments by provider and what became of them.",
      labelNames: ["provider", "outcome"] as const,
      registers,
    }),
  };
}
