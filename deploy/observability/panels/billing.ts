import type { Dashboard, Panel } from "../dashboards.ts";
import { greatest, perSecond, quantile } from "../promql.ts";
import { grpcRow, processRow, versionPanel } from "./process.ts";

const booking: Panel[] = [
  {
    title: "Messages not delivered, and in hand",
    description: "Of the usage stream.",
    unit: "short",
    queries: [
      { expr: greatest("billing_consumer_lag_messages"), legend: "not delivered" },
      { expr: greatest("billing_consumer_unacked_messages"), legend: "in hand" },
    ],
  },
  {
    title: "Oldest message that is not acknowledged",
    description: "Above five minutes it pages.",
    unit: "s",
    queries: [{ expr: greatest("billing_oldest_unacked_seconds"), legend: "oldest" }],
  },
  {
    title: "Events of a transaction, p50 and p99",
    description: "Many: billing works off what has gathered.",
    unit: "short",
    queries: [0.5, 0.99].map((share) => ({
      expr: quantile(share, "billing_batch_events"),
      legend: `p${share * 100}`,
    })),
  },
  {
    title: "Failures that are tried again",
    description: "Transactions, and calls of auth-quota's Post.",
    unit: "ops",
    queries: [
      { expr: perSecond("billing_book_failures_total"), legend: "transactions" },
      { expr: perSecond("billing_post_failures_total"), legend: "Post" },
    ],
  },
  {
    title: "Delivered or published again",
    description: "Messages that NATS delivered more than once, and charges that billing published from the outbox.",
    unit: "ops",
    queries: [
      { expr: perSecond("billing_redeliveries_total"), legend: "delivered again" },
      { expr: perSecond("billing_outbox_republished_total"), legend: "published again" },
    ],
  },
  {
    title: "Stream",
    description: "Its size and the size that it may have.",
    unit: "bytes",
    queries: [
      { expr: greatest("billing_stream_bytes"), legend: "bytes" },
      { expr: greatest("billing_stream_max_bytes"), legend: "at most" },
    ],
  },
];

const alarms: Panel[] = [
  {
    title: "Quarantine",
    description: "Records that wait for a person.",
    unit: "short",
    queries: [{ expr: greatest("billing_quarantine_open"), legend: "open" }],
  },
  {
    title: "Sums behind",
    description: "How long ago what is summed up by hour and day ends. Up to 70 minutes; above three hours a ticket.",
    unit: "s",
    queries: [{ expr: greatest("billing_sums_behind_seconds"), legend: "behind" }],
  },
  {
    title: "Days to be summed up",
    description: "From before there were sums; their lines are read until then.",
    unit: "short",
    queries: [{ expr: greatest("billing_sums_unsummed_partitions"), legend: "days" }],
  },
  {
    title: "Ledger epoch",
    description: "Grows when the ledger was promoted or restored.",
    unit: "short",
    queries: [{ expr: greatest("billing_ledger_epoch"), legend: "epoch" }],
  },
  {
    title: "Lost bookings that were booked again",
    description: "From the usage stream, in a new epoch of the ledger.",
    unit: "short",
    queries: [{ expr: "sum(increase(billing_ledger_rebooked_total[$__rate_interval]))", legend: "booked again" }],
  },
  {
    title: "Alarms about prices and finals",
    description: "Both must be 0: a version with other prices, a final below what was provisionally charged.",
    unit: "ops",
    queries: [
      { expr: perSecond("billing_price_conflicts_total"), legend: "price conflicts" },
      { expr: perSecond("billing_final_below_provisional_total"), legend: "finals below" },
    ],
  },
];

export const billing: Dashboard = {
  uid: "model-relay-billing",
  title: "Service billing",
  description: "From the usage stream to the ledger: lag, transactions, alarms, its process.",
  rows: [
    { title: "Booking", panels: [versionPanel("billing"), ...booking] },
    { title: "Alarms", panels: alarms },
    grpcRow("billing"),
    processRow("billing"),
  ],
};
