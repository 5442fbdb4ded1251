import type { Dashboard, Panel } from "../dashboards.ts";
import { greatest, perSecond, quantile, sumOf } from "../promql.ts";
import { grpcRow, processRow, versionPanel } from "./process.ts";

const answers: Panel[] = [
  {
    title: "Answers to relays",
    description: "By operation and verdict; unavailable is an operation whose outcome is unknown.",
    unit: "ops",
    queries: [
      { expr: perSecond("auth_quota_verdicts_total", "operation, verdict"), legend: "{{operation}} {{verdict}}" },
    ],
  },
  {
    title: "Contradictions",
    description: "Must be 0; each is in the log with its rid.",
    unit: "ops",
    queries: [
      { expr: perSecond("auth_quota_conflicts_total", "operation, reason"), legend: "{{operation}} {{reason}}" },
    ],
  },
  {
    title: "Calls refused for a wrong clock",
    description: "Must be 0; the log names the relay process and how far its clock is from Redis'.",
    unit: "reqps",
    queries: [{ expr: perSecond("auth_quota_skewed_calls_total", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Calls refused because too many are under way",
    description: "Of their account or key; callers get 429.",
    unit: "reqps",
    queries: [{ expr: perSecond("auth_quota_concurrency_refusals_total", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Sessions of relays",
    description: "Open streams from relays, by process of auth-quota.",
    unit: "short",
    queries: [{ expr: sumOf("auth_quota_sessions", "instance"), legend: "{{instance}}" }],
  },
  {
    title: "Operations in a batch, p50 and p99",
    description: "Larger ones cost less for each operation.",
    unit: "short",
    queries: [0.5, 0.99].map((share) => ({
      expr: quantile(share, "auth_quota_batch_operations"),
      legend: `p${share * 100}`,
    })),
  },
];

const stores: Panel[] = [
  {
    title: "The money script in Redis, p50 and p99",
    description: "Time of one run, by whether it was answered.",
    unit: "s",
    queries: [0.5, 0.99].map((share) => ({
      expr: quantile(share, "auth_quota_redis_duration_seconds", "outcome"),
      legend: `p${share * 100} {{outcome}}`,
    })),
  },
  {
    title: "Gate closed for",
    description: "Nothing is granted since Redis lost data; 0: it grants.",
    unit: "s",
    queries: [{ expr: greatest("auth_quota_gate_closed_seconds", "shard"), legend: "shard {{shard}}" }],
  },
  {
    title: "Oldest move of an account",
    description: "To another shard; its new calls wait meanwhile. Above ten minutes it pages.",
    unit: "s",
    queries: [{ expr: greatest("auth_quota_oldest_move_seconds"), legend: "oldest" }],
  },
  {
    title: "Processes connected to each shard",
    description: "Of auth-quota to Redis; calls of accounts of a shard at 0 are refused.",
    unit: "short",
    queries: [{ expr: sumOf("auth_quota_shard_connected", "shard"), legend: "shard {{shard}}" }],
  },
  {
    title: "Outbox",
    description: "Charges not yet confirmed by the ledger.",
    unit: "short",
    queries: [{ expr: greatest("auth_quota_outbox_size"), legend: "charges" }],
  },
  {
    title: "Oldest charge of the outbox",
    description: "Above a minute it pages.",
    unit: "s",
    queries: [{ expr: greatest("auth_quota_outbox_oldest_seconds"), legend: "oldest" }],
  },
  {
    title: "Changes that are not in force",
    description: "Keys and accounts whose last change Redis has not taken.",
    unit: "short",
    queries: [{ expr: greatest("auth_quota_unpushed_rows"), legend: "rows" }],
  },
];

export const authQuota: Dashboard = {
  uid: "model-relay-auth-quota",
  title: "Service auth-quota",
  description: "Who may call, and the holds: answers, Redis, the outbox, its process.",
  rows: [
    { title: "Answers", panels: [versionPanel("auth-quota"), ...answers] },
    { title: "Stores", panels: stores },
    grpcRow("auth-quota"),
    processRow("auth-quota"),
  ],
};
