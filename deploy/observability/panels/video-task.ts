import type { Dashboard, Panel } from "../dashboards.ts";
import { greatest, perSecond, quantile } from "../promql.ts";
import { grpcRow, processRow, versionPanel } from "./process.ts";

const tasks: Panel[] = [
  {
    title: "Tasks by state",
    description: "Of ended ones those submitted within an hour; every replica tells the same.",
    unit: "short",
    queries: [{ expr: greatest("video_task_tasks", "state"), legend: "{{state}}" }],
  },
  {
    title: "Submissions by outcome",
    description: "unknown: a provider may have taken it, and nobody is charged.",
    unit: "ops",
    queries: [{ expr: perSecond("video_task_submissions_total", "outcome"), legend: "{{outcome}}" }],
  },
  {
    title: "Tasks that ended",
    description: "timeout and not_found are no provider's word.",
    unit: "ops",
    queries: [{ expr: perSecond("video_task_ended_total", "state, code"), legend: "{{state}} {{code}}" }],
  },
  {
    title: "Oldest open task",
    description: "Above three hours it pages: nobody looks.",
    unit: "s",
    queries: [{ expr: greatest("video_task_oldest_open_seconds"), legend: "oldest" }],
  },
  {
    title: "Poll delay, p50 and p99",
    description: "After they were due.",
    unit: "s",
    queries: [0.5, 0.99].map((share) => ({
      expr: quantile(share, "video_task_poll_lag_seconds"),
      legend: `p${share * 100}`,
    })),
  },
  {
    title: "Questions that providers did not answer",
    description: "By upstream and verb.",
    unit: "ops",
    queries: [
      { expr: perSecond("video_task_provider_errors_total", "upstream, verb"), legend: "{{upstream}} {{verb}}" },
    ],
  },
];

const money: Panel[] = [
  {
    title: "Charges and refunds that are not booked",
    description: "How many, as far as is known.",
    unit: "short",
    queries: [{ expr: greatest("video_task_money_events_open"), legend: "open" }],
  },
  {
    title: "Oldest of them",
    description: "Above ten minutes it pages.",
    unit: "s",
    queries: [{ expr: greatest("video_task_money_oldest_seconds"), legend: "oldest" }],
  },
  {
    title: "Refunds",
    description: "Booked, and refused by billing; a refused one waits for a person.",
    unit: "ops",
    queries: [
      { expr: perSecond("video_task_refunds_total"), legend: "booked" },
      { expr: perSecond("video_task_refused_money_events_total"), legend: "refused" },
    ],
  },
  {
    title: "What the operator pays",
    description: "Submissions taken after they counted as unknown, tasks completed after their refund, and lost ones.",
    unit: "ops",
    queries: [
      { expr: perSecond("video_task_late_acceptances_total"), legend: "late acceptances" },
      { expr: perSecond("video_task_late_successes_total"), legend: "late successes" },
      { expr: perSecond("video_task_lost_tasks_total"), legend: "lost tasks" },
    ],
  },
];

export const videoTask: Dashboard = {
  uid: "model-relay-video-task",
  title: "Service video-task",
  description: "Video tasks, polls of providers, charges and refunds, its process.",
  rows: [
    { title: "Tasks", panels: [versionPanel("video-task"), ...tasks] },
    { title: "Money", panels: money },
    grpcRow("video-task"),
    processRow("video-task"),
  ],
};
