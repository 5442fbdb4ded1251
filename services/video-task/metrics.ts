import type { Registry } from "prom-client";
import { counter, counters, gauge, gauges, histogram } from "#shared/metrics/metrics.ts";
import type { LiveUpstreams } from "./catalog.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** The metrics of video-task; the README's table says what each means to an operator. */
export function createMetrics(registry: Registry) {
  const count = (name: string, help: string) => counter(registry, { name, help });
  const gaugeOf = (name: string, help: string) => gauge(registry, { name, help });
  return {
    submissions: counters(registry, {
      name: "video_task_submissions_total",
      help: "Submissions by outcome: accepted, refused, unknown.",
      labels: ["outcome"],
    }),
    ended: counters(registry, {
      name: "video_task_ended_total",
      help: "Tasks ended, by state and, for failed ones, error code.",
      labels: ["state", "code"],
    }),
    providerErrors: counters(registry, {
      name: "video_task_provider_errors_total",
      help: "Provider requests that failed or got an unexpected answer, by upstream and verb.",
      labels: ["upstream", "verb"],
      unboundedLabels: ["upstream"],
    }),
    refunds: count("video_task_refunds_total", "Refunds booked by billing."),
    refundedNanos: count(
      "video_task_refunded_nanos_total",
      "Nano-USD refunded, for trends; the ledger is authoritative.",
    ),
    lateSuccesses: count(
      "video_task_late_successes_total",
      "Tasks that completed after they had failed and been refunded.",
    ),
    lateAcceptances: count(
      "video_task_late_acceptances_total",
      "Submissions accepted by a provider after they counted as unknown.",
    ),
    refusedMoney: count(
      "video_task_refused_money_events_total",
      "Refunds rejected by billing; an operator must check.",
    ),
    lostTasks: count(
      "video_task_lost_tasks_total",
      "Charged videos of which the task was lost by a restore; each has failed and is refunded.",
    ),
    pollLag: histogram(registry, {
      name: "video_task_poll_lag_seconds",
      help: "Delay between a poll's due time and its start.",
      buckets: [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900],
    }),
    tasks: gauges(registry, {
      name: "video_task_tasks",
      help: "Tasks by state; of ended tasks, those submitted in the last hour. Every replica reports the same.",
      labels: ["state"],
    }),
    oldestOpen: gaugeOf("video_task_oldest_open_seconds", "Age of the oldest task that has not ended."),
    moneyOpen: gaugeOf("video_task_money_events_open", "Charges and refunds not yet confirmed as booked."),
    moneyOldest: gaugeOf("video_task_money_oldest_seconds", "Age of the oldest unconfirmed charge or refund."),
  };
}

/** Declares the gauge of the catalog's file. */
export function watchCatalog(registry: Registry, { isStale }: Pick<LiveUpstreams, "isStale">): void {
  gauge(registry, {
    name: "video_task_catalog_refused",
    help: "1 while the newest catalog is rejected and the previous video upstreams stay in use.",
    read: () => Number(isStale()),
  });
}
