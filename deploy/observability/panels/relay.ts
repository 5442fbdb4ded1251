import type { Dashboard, Panel } from "../dashboards.ts";
import { greatest, perSecond, quantile, sumOf } from "../promql.ts";
import { grpcRow, processRow, versionPanel } from "./process.ts";

const calls: Panel[] = [
  {
    title: "Calls by how they ended",
    description: "The end of the answer, as it stands in the usage event.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_calls_total", "end"), legend: "{{end}}" }],
  },
  {
    title: "Failures by relay",
    description: "Calls that failed by the gateway's own fault; one relay alone is a sick machine.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_calls_total", "instance", 'outcome="gateway_error"'), legend: "{{instance}}" }],
  },
  {
    title: "Accounts whose calls fail",
    description: "The ten of each relay with most failed calls in the last five to ten minutes. Empty: none failed.",
    unit: "short",
    queries: [{ expr: sumOf("relay_failing_account_calls", "account, outcome"), legend: "{{account}} {{outcome}}" }],
  },
  {
    title: "Connected to auth-quota",
    description: "0: the relay refuses every call.",
    unit: "short",
    queries: [{ expr: greatest("relay_quota_connected", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Operations that auth-quota has not answered",
    description: "Grows when auth-quota or its Redis is slow.",
    unit: "short",
    queries: [{ expr: sumOf("relay_quota_queued", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Calls within leases",
    description: "Admitted without a round trip, and leases asked back. Empty: LEASE_FROM_CALLS_PER_SECOND is 0.",
    unit: "ops",
    queries: [
      { expr: perSecond("relay_leased_calls_total", "instance"), legend: "calls {{instance}}" },
      { expr: perSecond("relay_leases_recalled_total", "instance"), legend: "asked back {{instance}}" },
    ],
  },
  {
    title: "Leases",
    description: "Keys whose calls are admitted without a round trip now.",
    unit: "short",
    queries: [{ expr: sumOf("relay_leases", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Bodies in memory",
    description: "Request bodies above 64 KiB; at MAX_BODY_BYTES_IN_FLIGHT (320 MiB unless set) one more gets 503.",
    unit: "bytes",
    queries: [{ expr: sumOf("relay_body_bytes", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Answers in memory",
    description: "Above 64 KiB and whole; at four times MAX_REPLY_BYTES (256 MiB unless set) one more waits.",
    unit: "bytes",
    queries: [{ expr: sumOf("relay_reply_bytes", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Answers that wait for room",
    description: "Their upstreams are not read meanwhile. Callers who have read one for 30 s are broken off then.",
    unit: "short",
    queries: [{ expr: sumOf("relay_replies_waiting", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Connections refused",
    description: "Because their address has as many as it may.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_connection_refusals_total", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Large bodies that wait for a thread",
    description: "At 64 of them, or half as many of one account, one more gets 503.",
    unit: "short",
    queries: [{ expr: sumOf("relay_large_waiting", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Large bodies, p99 of waiting and of work",
    description: "Bodies and whole answers above 256 KiB are read in threads.",
    unit: "s",
    queries: [
      { expr: quantile(0.99, "relay_large_wait_seconds"), legend: "waiting" },
      { expr: quantile(0.99, "relay_large_work_seconds"), legend: "work" },
    ],
  },
  {
    title: "Large bodies without a thread",
    description: "Refused because too many waited; threads that ended at work.",
    unit: "ops",
    queries: [
      { expr: perSecond("relay_large_refused_total"), legend: "refused" },
      { expr: perSecond("relay_large_thread_ends_total"), legend: "threads ended" },
    ],
  },
  {
    title: "Request fields that were dropped",
    description: "They could not be carried to the upstream's format; callers read them in x-relay-dropped.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_dropped_fields_total", "field"), legend: "{{field}}" }],
  },
  {
    title: "Refused calls left out",
    description: "They are in no account's activity: too many keys at once, or auth-quota was away.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_refusals_omitted_total"), legend: "left out" }],
  },
];

const records: Panel[] = [
  {
    title: "Spool",
    description: "Above SPOOL_MAX_BYTES a relay takes no calls.",
    unit: "bytes",
    queries: [
      { expr: sumOf("relay_spool_bytes", "instance"), legend: "{{instance}}" },
      { expr: sumOf("relay_spool_max_bytes", "instance"), legend: "{{instance}} most" },
    ],
  },
  {
    title: "Oldest record of the spool",
    description: "Not known to be booked. Above five minutes it pages.",
    unit: "s",
    queries: [{ expr: greatest("relay_spool_oldest_seconds", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Booked charges that the ledger lost",
    description: "Told again from the spool, or gone: neither ledger, stream nor spool has them.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_lost_charges_total", "outcome"), legend: "{{outcome}}" }],
  },
  {
    title: "Usage events published",
    description: "Confirmed by JetStream; failed and tried again; left to spool and outbox because too many waited.",
    unit: "ops",
    queries: [
      { expr: perSecond("relay_usage_published_total"), legend: "published" },
      { expr: perSecond("relay_usage_publish_failures_total"), legend: "failed" },
      { expr: perSecond("relay_usage_publish_dropped_total"), legend: "left" },
    ],
  },
  {
    title: "Until JetStream confirms, p50 and p99",
    description: "From publishing a usage event to its confirmation.",
    unit: "s",
    queries: [0.5, 0.99].map((share) => ({
      expr: quantile(share, "relay_usage_publish_seconds"),
      legend: `p${share * 100}`,
    })),
  },
  {
    title: "Settles refused as contradictions",
    description: "Must be 0; each is in the log with its rid.",
    unit: "ops",
    queries: [{ expr: perSecond("relay_settle_conflicts_total", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Videos",
    description: "Submissions that have not ended or are not concluded, and files on their way to callers.",
    unit: "short",
    queries: [
      { expr: sumOf("relay_video_submissions"), legend: "submissions" },
      { expr: sumOf("relay_video_downloads"), legend: "files" },
    ],
  },
];

const catalog: Panel[] = [
  {
    title: "Catalogs in use",
    description: "Relays by the SHA-256 of their catalog file. Two for half an hour are a ticket.",
    unit: "short",
    queries: [{ expr: sumOf("relay_catalog_info", "hash"), legend: "{{hash}}" }],
  },
  {
    title: "Catalog refused",
    description: "Processes that go on with the catalog before the newest file, which they refuse. One pages.",
    unit: "short",
    queries: [
      { expr: sumOf("relay_catalog_refused"), legend: "relay" },
      { expr: sumOf("video_task_catalog_refused"), legend: "video-task" },
    ],
  },
];

export const relay: Dashboard = {
  uid: "model-relay-relay",
  title: "Service relay",
  description: "Each relay by itself: calls, its spool, its link to auth-quota, its process.",
  rows: [
    { title: "Calls", panels: [versionPanel("relay"), ...calls] },
    { title: "Records", panels: records },
    { title: "Catalog", panels: catalog },
    grpcRow("relay"),
    processRow("relay"),
  ],
};
