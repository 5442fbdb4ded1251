import type { Dashboard, Panel } from "../dashboards.ts";
import { ago, greatest, perSecond, quantile, sumOf } from "../promql.ts";

const usdPerSecond = (metric: string, by = ""): string => `${perSecond(metric, by)} / 1e9`;

const difference: Panel[] = [
  {
    title: "Money that nothing explains",
    description: "The greatest difference of any check of the newest runs. Must be 0; anything else pages at once.",
    unit: "currencyUSD",
    isNumber: true,
    queries: [
      {
        expr: 'max(namespace_run_check:billing_reconciliation_difference_nanos:newest{namespace=~"$namespace"}) / 1e9',
        legend: "difference",
      },
    ],
  },
  {
    title: "Last run",
    description: "How long ago the books were reconciled; lately: 30 min at most, day: 26 h.",
    unit: "s",
    isNumber: true,
    queries: [{ expr: ago("billing_reconciliation_last_run_seconds", "run"), legend: "{{run}}" }],
  },
  {
    title: "Last run without anything wrong or unchecked",
    description: "How long ago.",
    unit: "s",
    isNumber: true,
    queries: [{ expr: ago("billing_reconciliation_last_success_seconds", "run"), legend: "{{run}}" }],
  },
  {
    title: "Begin of the day to close",
    description: "How long ago; a day is closed 25 h after it began.",
    unit: "s",
    isNumber: true,
    queries: [{ expr: `time() - ${greatest("billing_closed_until_seconds")}`, legend: "begin" }],
  },
  {
    title: "Days overdue for the archive",
    description: "Older than LEDGER_KEEP_DAYS and still in the ledger. One after midnight.",
    unit: "short",
    isNumber: true,
    queries: [{ expr: greatest("billing_archive_overdue_partitions"), legend: "days" }],
  },
  {
    title: "Events missing by the relays' numbers",
    description: "For ten minutes or more. Must be 0.",
    unit: "short",
    isNumber: true,
    queries: [{ expr: greatest("billing_session_holes"), legend: "missing" }],
  },
  {
    title: "Difference by check",
    description: "Of the newest runs.",
    unit: "currencyUSD",
    queries: [
      {
        expr: 'namespace_run_check:billing_reconciliation_difference_nanos:newest{namespace=~"$namespace"} / 1e9',
        legend: "{{run}} {{check}}",
      },
    ],
  },
  {
    title: "Checks that are wrong or unchecked",
    description: "1 for each, of the newest runs.",
    unit: "short",
    queries: [
      {
        expr:
          "namespace_run_check_finding:billing_reconciliation_findings:newest" +
          '{namespace=~"$namespace",finding=~"wrong|unchecked"}',
        legend: "{{run}} {{check}} {{finding}}",
      },
    ],
  },
];

const holds: Panel[] = [
  {
    title: "Open holds",
    description: "Calls for which money is held.",
    unit: "short",
    queries: [{ expr: greatest("auth_quota_open_holds"), legend: "open" }],
  },
  {
    title: "Age of holds at their end, p50 and p99",
    description: "By whether they were charged or released.",
    unit: "s",
    queries: [0.5, 0.99].map((share) => ({
      expr: quantile(share, "relay_hold_seconds", "outcome"),
      legend: `p${share * 100} {{outcome}}`,
    })),
  },
  {
    title: "Holds of lost relays, and charges above their hold",
    description: "Both are usual in small numbers.",
    unit: "ops",
    queries: [
      { expr: perSecond("auth_quota_expired_holds_total"), legend: "expired" },
      { expr: perSecond("relay_charges_over_hold_total"), legend: "above the hold" },
    ],
  },
];

const way: Panel[] = [
  {
    title: "From the end of a call to its booking",
    description: "The target is 60 s for 99.99 %.",
    unit: "s",
    queries: [0.5, 0.99, 0.999].map((share) => ({
      expr: quantile(share, "billing_event_age_seconds"),
      legend: `p${share * 100}`,
    })),
  },
  {
    title: "What waits, by its oldest",
    description: "On the way from a relay to the ledger: publish, spool, stream, outbox, quarantine, videos.",
    unit: "s",
    queries: [
      { expr: greatest("relay_usage_oldest_waiting_seconds"), legend: "not published" },
      { expr: greatest("relay_spool_oldest_seconds"), legend: "in a spool" },
      { expr: greatest("billing_oldest_unacked_seconds"), legend: "in the stream" },
      { expr: greatest("auth_quota_outbox_oldest_seconds"), legend: "in the outbox" },
      { expr: greatest("billing_quarantine_oldest_seconds"), legend: "in quarantine" },
      { expr: greatest("video_task_money_oldest_seconds"), legend: "of videos" },
    ],
  },
  {
    title: "What waits, by number",
    description: "The same places.",
    unit: "short",
    queries: [
      { expr: sumOf("relay_usage_waiting"), legend: "not published" },
      { expr: sumOf("relay_spool_records"), legend: "in spools" },
      { expr: greatest("billing_consumer_lag_messages"), legend: "messages not delivered" },
      { expr: greatest("billing_consumer_unacked_messages"), legend: "messages in hand" },
      { expr: greatest("auth_quota_outbox_size"), legend: "in the outbox" },
      { expr: greatest("billing_quarantine_open"), legend: "in quarantine" },
      { expr: greatest("video_task_money_events_open"), legend: "of videos" },
    ],
  },
  {
    title: "Usage stream: how full",
    description: "From 80 % on the oldest booked messages are removed; above 85 % it is full of what is not booked.",
    unit: "percentunit",
    queries: [
      { expr: `${greatest("billing_stream_bytes")} / ${greatest("billing_stream_max_bytes")}`, legend: "full" },
    ],
  },
];

const sums: Panel[] = [
  {
    title: "Charged per second",
    description: "By relays, and booked by billing; for trends, the ledger is the truth.",
    unit: "currencyUSD",
    queries: [
      { expr: usdPerSecond("relay_charged_nanos_total"), legend: "charged" },
      { expr: usdPerSecond("billing_charged_nanos_total"), legend: "booked" },
    ],
  },
  {
    title: "Refunded for videos per second",
    description: "For trends, the ledger is the truth.",
    unit: "currencyUSD",
    queries: [{ expr: usdPerSecond("video_task_refunded_nanos_total"), legend: "refunded" }],
  },
  {
    title: "Events booked",
    description: "By kind of ledger line.",
    unit: "ops",
    queries: [{ expr: perSecond("billing_events_booked_total", "kind"), legend: "{{kind}}" }],
  },
  {
    title: "Events that added nothing, or were put aside",
    description: "Duplicates and superseded ones are usual after faults; quarantine pages.",
    unit: "ops",
    queries: [
      { expr: perSecond("billing_duplicates_total"), legend: "duplicates" },
      { expr: perSecond("billing_superseded_total"), legend: "superseded" },
      { expr: perSecond("billing_quarantined_total", "reason"), legend: "quarantine {{reason}}" },
    ],
  },
];

export const money: Dashboard = {
  uid: "model-relay-money",
  title: "Money",
  description: "Whether the books agree, what is held, and how far the ledger is behind.",
  rows: [
    { title: "Reconciliation", panels: difference },
    { title: "Holds", panels: holds },
    { title: "On the way to the ledger", panels: way },
    { title: "Sums", panels: sums },
  ],
};
