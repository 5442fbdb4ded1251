import type { Dashboard, Panel } from "../dashboards.ts";
import { greatest, perSecond, quantile, sumOf } from "../promql.ts";

const health: Panel[] = [
  {
    title: "Circuits",
    description: "0: closed; 1: half open; 2: open. The worst relay of each upstream.",
    unit: "short",
    queries: [{ expr: greatest("relay_upstream_circuit", "upstream"), legend: "{{upstream}}" }],
  },
  {
    title: "Models without a route",
    description: "Models whose upstreams are all left alone, by how many relays. Five minutes page. Empty: none.",
    unit: "short",
    queries: [{ expr: sumOf("relay_model_without_route", "model"), legend: "{{model}}" }],
  },
  {
    title: "Attempts by outcome",
    description: "Attempts at an upstream, by outcome.",
    unit: "reqps",
    queries: [
      { expr: perSecond("relay_upstream_attempts_total", "upstream, outcome"), legend: "{{upstream}} {{outcome}}" },
    ],
  },
  {
    title: "Faults by reason",
    description: "What upstreams do wrong; status_4xx may be the callers'.",
    unit: "reqps",
    queries: [
      { expr: perSecond("relay_upstream_faults_total", "upstream, reason"), legend: "{{upstream}} {{reason}}" },
    ],
  },
  {
    title: "Share of attempts that ended with a fault",
    description: "Without status_4xx. Above 20 % for ten minutes is a ticket.",
    unit: "percentunit",
    queries: [
      {
        expr:
          `${perSecond("relay_upstream_faults_total", "upstream", 'reason!="status_4xx"')} / ` +
          perSecond("relay_upstream_attempts_total", "upstream"),
        legend: "{{upstream}}",
      },
    ],
  },
  {
    title: "Failovers",
    description: "Calls that left this upstream for the next one of the model.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_failovers_total", "upstream"), legend: "{{upstream}}" }],
  },
  {
    title: "Passed over",
    description: "Times an upstream was not asked: busy, cooling down or with an open circuit.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_upstream_skips_total", "upstream, reason"), legend: "{{upstream}} {{reason}}" }],
  },
  {
    title: "Left alone because of an answer",
    description: "rate: a limit of theirs; account: our credential or money there; unavailable: they asked for it.",
    unit: "ops",
    queries: [
      { expr: perSecond("relay_upstream_cool_downs_total", "upstream, reason"), legend: "{{upstream}} {{reason}}" },
    ],
  },
  {
    title: "Calls under way",
    description: "At each upstream, from all relays; max_concurrent of the catalog is per relay.",
    unit: "short",
    queries: [{ expr: sumOf("relay_upstream_live_calls", "upstream"), legend: "{{upstream}}" }],
  },
];

const speed: Panel[] = [
  {
    title: "Head of the answer, p50 and p95",
    description: "From sending to the head of the upstream's answer.",
    unit: "s",
    queries: [0.5, 0.95].map((share) => ({
      expr: quantile(share, "relay_upstream_first_byte_seconds", "upstream"),
      legend: `p${share * 100} {{upstream}}`,
    })),
  },
  {
    title: "Between two pieces of a stream, p95",
    description: "Sampled. A provider that slows down shows here first.",
    unit: "s",
    queries: [{ expr: quantile(0.95, "relay_inter_chunk_seconds", "upstream"), legend: "{{upstream}}" }],
  },
];

const models: Panel[] = [
  {
    title: "Calls by model and upstream",
    description: "Which route serves which model.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_model_calls_total", "model, upstream"), legend: "{{model}} at {{upstream}}" }],
  },
  {
    title: "Calls that did not end well, by model",
    description: "Outcomes other than ok.",
    unit: "reqps",
    queries: [
      {
        expr: perSecond("relay_model_calls_total", "model, outcome", 'outcome!="ok"'),
        legend: "{{model}} {{outcome}}",
      },
    ],
  },
];

const counts: Panel[] = [
  {
    title: "Counts that do not add up",
    description:
      "Answers whose token counts cannot be right: they differ from the upstream's total, or tell no output of text.",
    unit: "ops",
    queries: [
      { expr: perSecond("relay_usage_mismatches_total", "upstream"), legend: "{{upstream}}" },
      { expr: perSecond("relay_impossible_usage_total", "upstream"), legend: "impossible {{upstream}}" },
    ],
  },
  {
    title: "Units without a price, and free calls",
    description: "Served and not charged: the catalog lacks a price.",
    unit: "ops",
    queries: [
      { expr: perSecond("relay_unpriced_units_total", "upstream, bucket"), legend: "{{bucket}} {{upstream}}" },
      { expr: perSecond("relay_free_calls_total", "upstream"), legend: "free calls {{upstream}}" },
      { expr: perSecond("relay_unpriced_models_total", "upstream"), legend: "models without a price {{upstream}}" },
    ],
  },
];

export const upstreams: Dashboard = {
  uid: "model-relay-upstreams",
  title: "Upstreams",
  description: "Which provider is well, which is slow, and what is done about those that are not.",
  rows: [
    { title: "Health", panels: health },
    { title: "Speed", panels: speed },
    { title: "Models", panels: models },
    { title: "Counts of use", panels: counts },
  ],
};
