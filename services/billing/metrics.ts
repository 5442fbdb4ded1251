import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { rejectReasons } from "./check.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** What billing counts; the README's table says what each means to an operator. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  const quarantined = new Counter({
    name: "billing_quarantined_total",
    help: "Records put into quarantine, by reason.",
    labelNames: ["reason"] as const,
    registers,
  });
  // An alert on growth needs the series to exist before the first one.
  for (const reason of rejectReasons) quarantined.inc({ reason }, 0);
  return {
    booked: new Counter({
      name: "billing_events_booked_total",
      help: "Usage events booked, by kind of ledger line.",
      labelNames: ["kind"] as const,
      registers,
    }),
    duplicates: counter("billing_duplicates_total", "Usage events that had been booked before."),
    superseded: counter("billing_superseded_total", "Provisional events that came after their final one."),
    lowered: counter("billing_final_below_provisional_total", "Finals that cost less than was provisionally charged."),
    quarantined,
    priceConflicts: counter("billing_price_conflicts_total", "Calls whose price version is booked with other prices."),
    chargedNanos: counter("billing_charged_nanos_total", "Nano-USD charged, for trends; the ledger is the truth."),
    eventAge: new Histogram({
      name: "billing_event_age_seconds",
      help: "Time from the end of a call to its booking.",
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900, 3_600],
      registers,
    }),
    batchEvents: new Histogram({
      name: "billing_batch_events",
      help: "Usage events per transaction.",
      buckets: [1, 2, 5, 10, 50, 100, 250, 500, 1_000, 2_000, 4_000],
      registers,
    }),
    bookFailures: counter("billing_book_failures_total", "Transactions that failed and were tried again."),
    postFailures: counter("billing_post_failures_total", "Calls of auth-quota's Post that failed."),
    republished: counter("billing_outbox_republished_total", "Unconfirmed charges published to the stream again."),
    lagMessages: new Gauge({
      name: "billing_consumer_lag_messages",
      help: "Messages of the stream that were not delivered to billing yet.",
      registers,
    }),
    unackedMessages: new Gauge({
      name: "billing_consumer_unacked_messages",
      help: "Messages delivered to billing and not acknowledged yet.",
      registers,
    }),
    ...createReconciliationMetrics(registers),
  };
}

function createReconciliationMetrics(registers: Registry[]) {
  return {
    reconciliationDifference: new Gauge({
      name: "billing_reconciliation_difference_nanos",
      help: "Nano-USD by which the two sides of a check differ without an explanation, as of the newest run.",
      labelNames: ["run", "check"] as const,
      registers,
    }),
    reconciliationFindings: new Gauge({
      name: "billing_reconciliation_findings",
      help: "1 for what the newest run found by a check: right, listed, wrong or unchecked; 0 for the others.",
      labelNames: ["run", "check", "finding"] as const,
      registers,
    }),
    reconciliationLastSuccess: new Gauge({
      name: "billing_reconciliation_last_success_seconds",
      help: "When, since 1970, a run last found nothing wrong and nothing unchecked.",
      labelNames: ["run"] as const,
      registers,
    }),
    sessionHoles: new Gauge({
      name: "billing_session_holes",
      help: "Events that the numbers of relay processes say are missing for ten minutes or more.",
      registers,
    }),
  };
}
