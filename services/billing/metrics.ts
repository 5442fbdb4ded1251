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
  };
}
