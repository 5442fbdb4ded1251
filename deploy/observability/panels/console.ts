import type { Dashboard, Panel } from "../dashboards.ts";
import { perSecond, quantile } from "../promql.ts";
import { processRow, versionPanel } from "./process.ts";

const requests = "console_request_duration_seconds";

const pages: Panel[] = [
  {
    title: "Requests by status",
    description: "5xx is ours or a neighbour's.",
    unit: "reqps",
    queries: [{ expr: perSecond(`${requests}_count`, "status"), legend: "{{status}}" }],
  },
  {
    title: "Errors by page",
    description: "Answers with 5xx, by pattern of the path.",
    unit: "reqps",
    queries: [{ expr: perSecond(`${requests}_count`, "method, path", 'status=~"5.."'), legend: "{{method}} {{path}}" }],
  },
  {
    title: "Time by page, p95",
    description: "By pattern of the path.",
    unit: "s",
    queries: [{ expr: quantile(0.95, requests, "method, path"), legend: "{{method}} {{path}}" }],
  },
  {
    title: "Sign-ins",
    description: "half: the second factor is awaited. When refused grows, somebody guesses.",
    unit: "ops",
    queries: [{ expr: perSecond("console_sign_ins_total", "outcome"), legend: "{{outcome}}" }],
  },
  {
    title: "Card payments",
    description: "unbooked, disputed and bad_signature wait for a person.",
    unit: "ops",
    queries: [{ expr: perSecond("console_top_ups_total", "provider, outcome"), legend: "{{provider}} {{outcome}}" }],
  },
];

export const consoleService: Dashboard = {
  uid: "model-relay-console",
  title: "Service console",
  description: "Pages, sign-ins, card payments, its process.",
  rows: [{ title: "Pages", panels: [versionPanel("console"), ...pages] }, processRow("console")],
};
