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
    help: "Records quarantined, by reason.",
    labels: ["reason"],
  });
  // An alert on growth needs the series to exist before the first one.
  for (const reason of rejectReasons) quarantined.inc({ reason }, 0);
  const booked = counters(registry, {
    name: "billing_events_booked_total",
    help: "Usage events booked, by kind of ledger line and end cause of the call.",
    labels: ["kind", "end"],
  });
  booked.inc({ kind: "charge", end: endName(EndCause.DRAINED) }, 0);
  return {
    booked,
    duplicates: count("billing_duplicates_total", "Usage events that were already booked."),
    superseded: count("billing_superseded_total", "Provisional events received after their final one."),
    lowered: count("billing_final_below_provisional_total", "Final events that cost less than the provisional charge."),
    quarantined,
    priceConflicts: count(
      "billing_price_conflicts_total",
      "Calls whose price version is booked with different prices.",
    ),
    chargedNanos: count("billing_charged_nanos_total", "Nano-USD charged, for trends; the ledger is authoritative."),
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
    bookFailures: count("billing_book_failures_total", "Transactions that failed and were retried."),
    postFailures: count("billing_post_failures_total", "Failed calls of auth-quota's Post."),
    republished: count("billing_outbox_republished_total", "Unconfirmed charges republished to the stream."),
    lagMessages: gauge(registry, {
      name: "billing_consumer_lag_messages",
      help: "Messages on the stream not yet delivered to billing.",
    }),
    unackedMessages: gauge(registry, {
      name: "billing_consumer_unacked_messages",
      help: "Messages delivered to billing and not yet acknowledged.",
    }),
    oldestUnacked: gauge(registry, {
      name: "billing_oldest_unacked_seconds",
      help: "Age of the oldest message on the stream that billing has not acknowledged; 0 for none.",
    }),
    redeliveries: count("billing_redeliveries_total", "Messages of the stream redelivered to billing."),
    streamBytes: gauge(registry, { name: "billing_stream_bytes", help: "Size of the usage stream in bytes." }),
    streamMaxBytes: gauge(registry, {
      name: "billing_stream_max_bytes",
      help: "Maximum size of the usage stream in bytes, beyond which it refuses events; 0 for no limit.",
    }),
    ...createEpochMetrics(registry),
    quarantineOpen: gauge(registry, {
      name: "billing_quarantine_open",
      help: "Unsettled records in quarantine; counted up to 1,000.",
    }),
    quarantineOldest: gauge(registry, {
      name: "billing_quarantine_oldest_seconds",
      help: "Age of the oldest unsettled record in quarantine.",
    }),
    ...createSumMetrics(registry),
    ...createReconciliationMetrics(registry),
  };
}

function createEpochMetrics(registry: Registry) {
  return {
    ledgerEpoch: gauge(registry, {
      name: "billing_ledger_epoch",
      help: "Epoch of the ledger; grows when it was promoted or restored and may have lost bookings.",
    }),
    ledgerRebooked: counter(registry, {
      name: "billing_ledger_rebooked_total",
      help: "Lost bookings that were booked again from the stream.",
    }),
  };
}

function createSumMetrics(registry: Registry) {
  return {
    sumsBehind: gauge(registry, {
      name: "billing_sums_behind_seconds",
      help: "Time since the end of what is summed up by hour and by day; up to 70 minutes where nothing is wrong.",
    }),
    unsummedDays: gauge(registry, {
      name: "billing_sums_unsummed_partitions",
      help: "Days from before there were sums that are still to be summed up.",
    }),
    archiveOverdue: gauge(registry, {
      name: "billing_archive_overdue_partitions",
      help: "Days that are older than LEDGER_KEEP_DAYS and still in the ledger.",
    }),
  };
}

function createReconciliationMetrics(registry: Registry) {
  return {
    reconciliationDifference: gauges(registry, {
      name: "billing_reconciliation_difference_nanos",
      help: "Unexplained difference between the two sides of a check in nano-USD, as of the newest run.",
      labels: ["run", "check"],
    }),
    reconciliationFindings: gauges(registry, {
      name: "billing_reconciliation_findings",
      help: "1 for the finding of a check in the newest run: right, listed, wrong or unchecked; 0 for the others.",
      labels: ["run", "check", "finding"],
    }),
    reconciliationLastSuccess: gauges(registry, {
      name: "billing_reconciliation_last_success_seconds",
      help: "Unix time of the last clean reconciliation.",
      labels: ["run"],
    }),
    reconciliationLastRun: gauges(registry, {
      name: "billing_reconciliation_last_run_seconds",
      help: "Unix time of the last reconciliation, whatever it found.",
      labels: ["run"],
    }),
    closedUntil: gauge(registry, {
      name: "billing_closed_until_seconds",
      help: "Unix time at which the day begins that is to be closed next; 0 without a key to sign with.",
    }),
    sessionHoles: gauge(registry, {
      name: "billing_session_holes",
      help: "Events missing for ten minutes or more, according to the sequence numbers of relay processes.",
    }),
  };
}
