import type { Registry } from "prom-client";
import { counter, counters, gauge, gauges, histogram } from "#shared/metrics/metrics.ts";
import type { LiveUpstreams } from "./catalog.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** What video-task counts; the README's table says what each means to an operator. */
export function createMetrics(registry: Registry) {
  const count = (name: string, help: string) => counter(registry, { name, help });
  const level = (name: string, help: string) => gauge(registry, { name, help });
  return {
    submissions: counters(registry, {
      name: "video_task_submissions_total",
      help: "Submissions, by how they ended: accepted, refused, unknown.",
      labels: ["outcome"],
    }),
    ended: counters(registry, {
      name: "video_task_ended_total",
      help: "Tasks that ended, by state and, for failed ones, by code of the error.",
      labels: ["state", "code"],
    }),
    providerErrors: counters(registry, {
      name: "video_task_provider_errors_total",
      help: "Questions that a provider did not answer as it should, by upstream and verb.",
      labels: ["upstream", "verb"],
      unboundedLabels: ["upstream"],
    }),
    refunds: count("video_task_refunds_total", "Refunds that billing has booked."),
    refundedNanos: count("video_task_refunded_nanos_total", "Nano-USD of them, for trends; the ledger is the truth."),
    lateSuccesses: count("video_task_late_successes_total", "Tasks completed after they had failed and were refunded."),
    lateAcceptances: count("video_task_late_acceptances_total", "Submissions taken after they counted as unknown."),
    refusedMoney: count("video_task_refused_money_events_total", "Refunds that billing refuses; a person must look."),
    lookLag: histogram(registry, {
      name: "video_task_look_lag_seconds",
      help: "How long after it was due a look began.",
      buckets: [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900],
    }),
    tasks: gauges(registry, {
      name: "video_task_tasks",
      help: "Tasks by state; of ended ones those submitted within an hour. The same from every replica.",
      labels: ["state"],
    }),
    oldestOpen: level("video_task_oldest_open_seconds", "Age of the oldest task that has not ended."),
    moneyOpen: level("video_task_money_events_open", "Charges and refunds that are not known to be booked."),
    moneyOldest: level("video_task_money_oldest_seconds", "Age of the oldest of them."),
  };
}

/** Declares the gauge of the catalog's file. */
export function watchCatalog(registry: Registry, { isStale }: Pick<LiveUpstreams, "isStale">): void {
  gauge(registry, {
    name: "video_task_catalog_refused",
    help: "1 while the upstreams for videos of the newest catalog file are refused and those before stay in use.",
    read: () => Number(isStale()),
  });
}
