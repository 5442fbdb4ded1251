import type { Registry } from "prom-client";
import { counter, counters, gauge, gauges, histogram } from "#shared/metrics/metrics.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { endName } from "#shared/money/end-name.ts";
import { rejectReasons } from "./records/check.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** What billing counts; the README's table says what each means to an operator. */
export function createMetrics(registry: Registry) {
  const count = (name: string, help: string) => counter(registry, { name, help });
  const quarantined = counters(registry, {
    name: "billing_quarantined_total",
    help: "Records put into quarantine, by reason.",
    labels: ["reason"],
  });
  // An alert on growth needs the series to exist before the first one.
  for (const reason of rejectReasons) quarantined.inc({ reason }, 0);
  const booked = counters(registry, {
    name: "billing_events_booked_total",
    help: "Usage events booked, by kind of ledger line and how the call ended.",
    labels: ["kind", "end"],
  });
  booked.inc({ kind: "charge", end: endName(EndCause.DRAINED) }, 0);
  return {
    booked,
    duplicates: count("billing_duplicates_total", "Usage events that had been booked before."),
    superseded: count("billing_superseded_total", "Provisional events that came after their final one."),
    lowered: count("billing_final_below_provisional_total", "Finals that cost less than was provisionally charged."),
    quarantined,
    priceConflicts: count("billing_price_conflicts_total", "Calls whose price version is booked with other prices."),
    chargedNanos: count("billing_charged_nanos_total", "Nano-USD charged, for trends; the ledger is the truth."),
    eventAge: histogram(registry, {
      name: "billing_event_age_seconds",
      help: "Time from the end of a call to its booking.",
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900, 3_600],
    }),
    batchEvents: histogram(registry, {
      name: "billing_batch_events",
      help: "Usage events per transaction.",
      buckets: [1, 2, 5, 10, 50, 100, 250, 500, 1_000, 2_000, 4_000],
    }),
    bookFailures: count("billing_book_failures_total", "Transactions that failed and were tried again."),
    postFailures: count("billing_post_failures_total", "Calls of auth-quota's Post that failed."),
    republished: count("billing_outbox_republished_total", "Unconfirmed charges published to the stream again."),
    lagMessages: gauge(registry, {
      name: "billing_consumer_lag_messages",
      help: "Messages of the stream that were not delivered to billing yet.",
    }),
    unackedMessages: gauge(registry, {
      name: "billing_consumer_unacked_messages",
      help: "Messages delivered to billing and not acknowledged yet.",
    }),
    oldestUnacked: gauge(registry, {
      name: "billing_oldest_unacked_seconds",
      help: "How long the oldest message that billing has not acknowledged is in the stream; 0: there is none.",
    }),
    redeliveries: count("billing_redeliveries_total", "Messages of the stream that came to billing again."),
    streamBytes: gauge(registry, { name: "billing_stream_bytes", help: "Bytes that the usage stream holds." }),
    streamMaxBytes: gauge(registry, {
      name: "billing_stream_max_bytes",
      help: "Bytes that it may hold before it refuses events; 0: it has no such bound.",
    }),
    quarantineOpen: gauge(registry, {
      name: "billing_quarantine_open",
      help: "Records in quarantine that nobody has settled; counted up to 1,000.",
    }),
    quarantineOldest: gauge(registry, {
      name: "billing_quarantine_oldest_seconds",
      help: "For how long the oldest of them is there.",
    }),
    ...createReconciliationMetrics(registry),
  };
}

function createReconciliationMetrics(registry: Registry) {
  return {
    reconciliationDifference: gauges(registry, {
      name: "billing_reconciliation_difference_nanos",
      help: "Nano-USD by which the two sides of a check differ without an explanation, as of the newest run.",
      labels: ["run", "check"],
    }),
    reconciliationFindings: gauges(registry, {
      name: "billing_reconciliation_findings",
      help: "1 for what the newest run found by a check: right, listed, wrong or unchecked; 0 for the others.",
      labels: ["run", "check", "finding"],
    }),
    reconciliationLastSuccess: gauges(registry, {
      name: "billing_reconciliation_last_success_seconds",
      help: "When, since 1970, a run last found nothing wrong and nothing unchecked.",
      labels: ["run"],
    }),
    reconciliationLastRun: gauges(registry, {
      name: "billing_reconciliation_last_run_seconds",
      help: "When, since 1970, a run was last made, whatever it found.",
      labels: ["run"],
    }),
    sessionHoles: gauge(registry, {
      name: "billing_session_holes",
      help: "Events that the numbers of relay processes say are missing for ten minutes or more.",
    }),
  };
}
