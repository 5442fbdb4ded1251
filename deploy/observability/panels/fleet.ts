import type { Dashboard, Panel } from "../dashboards.ts";
import { greatest, grownBy, perSecond, quantile, sumOf } from "../promql.ts";
import { slos, type Slo } from "../slos.ts";

const scoped = (record: string): string => `${record}{namespace=~"$namespace"}`;

const sum = (isByEndpoint: boolean): string => (isByEndpoint ? "sum by (endpoint) " : "sum");

const budgetPanel = ({ title, isByEndpoint, budget, badRecord, allRecord }: Slo): Panel => ({
  title: `${title}: budget left`,
  description: "Share of the budget of 30 days that is left; below 0 the target is missed.",
  unit: "percentunit",
  isNumber: true,
  queries: [
    {
      expr:
        `1 - ${sum(isByEndpoint)}(avg_over_time(${scoped(`${badRecord}:rate5m`)}[30d])) ` +
        `/ ${sum(isByEndpoint)}(avg_over_time(${scoped(`${allRecord}:rate5m`)}[30d])) / ${budget}`,
      legend: isByEndpoint ? "{{endpoint}}" : "left",
    },
  ],
});

// Every endpoint's line for every window would be too many: what pages first, and what is a ticket last.
const burnWindows = (isByEndpoint: boolean): string[] => (isByEndpoint ? ["1h", "3d"] : ["1h", "6h", "1d", "3d"]);

const burnPanel = ({ title, isByEndpoint, budget, badRecord }: Slo): Panel => ({
  title: `${title}: burn`,
  description: "How many times too fast the budget burns; 14.4 over an hour pages, 1 over three days is a ticket.",
  unit: "short",
  queries: burnWindows(isByEndpoint).map((window) => ({
    expr: `${isByEndpoint ? "max by (endpoint) " : "max"}(${scoped(`${badRecord}:ratio_rate${window}`)}) / ${budget}`,
    legend: isByEndpoint ? `{{endpoint}} ${window}` : window,
  })),
});

const traffic: Panel[] = [
  {
    title: "Calls by outcome",
    description: "Calls answered. gateway_error is ours; draining is a call that came to a relay which was stopping.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_calls_total", "outcome"), legend: "{{outcome}}" }],
  },
  {
    title: "Calls by endpoint",
    description: "Calls answered, whatever their outcome.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_calls_total", "endpoint"), legend: "{{endpoint}}" }],
  },
  {
    title: "Calls by status",
    description: "HTTP status of the answer; 499 is a caller who left before there was one.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_calls_total", "status"), legend: "{{status}}" }],
  },
  {
    title: "Calls by model",
    description: "The models of the catalog; those beyond the cap of series are `other`.",
    unit: "reqps",
    queries: [{ expr: perSecond("relay_model_calls_total", "model"), legend: "{{model}}" }],
  },
];

const latency: Panel[] = [
  {
    title: "Added by the relay, by phase, p99",
    description: "Our own time, without the upstream's and the caller's.",
    unit: "s",
    queries: [{ expr: quantile(0.99, "relay_overhead_seconds", "phase"), legend: "{{phase}}" }],
  },
  {
    title: "Added by the relay",
    description: "Our own time until the caller's first byte, which the target of 25 ms is about.",
    unit: "s",
    queries: [0.5, 0.9, 0.99].map((share) => ({
      expr: quantile(share, "relay_added_latency_seconds"),
      legend: `p${share * 100}`,
    })),
  },
  {
    title: "Added by the relay, by endpoint, p99",
    description: "Our own time until the caller's first byte; a large body takes longer to read and check.",
    unit: "s",
    queries: [{ expr: quantile(0.99, "relay_added_latency_seconds", "endpoint"), legend: "{{endpoint}}" }],
  },
  {
    title: "Time to the first token, p95",
    description: "Of streams: from the head of the request to the first byte, the upstream's time included.",
    unit: "s",
    queries: [
      {
        expr: quantile(0.95, "relay_time_to_first_byte_seconds", "endpoint", 'streamed="true"'),
        legend: "{{endpoint}}",
      },
    ],
  },
  {
    title: "Time to the first byte of whole answers, p95",
    description: "From the head of the request to the first byte for the caller, the upstream's time included.",
    unit: "s",
    queries: [
      {
        expr: quantile(0.95, "relay_time_to_first_byte_seconds", "endpoint", 'streamed="false"'),
        legend: "{{endpoint}}",
      },
    ],
  },
  {
    title: "Whole calls, p95",
    description: "From the head of the request to the end of the answer.",
    unit: "s",
    queries: [
      {
        expr: quantile(0.95, "relay_call_duration_seconds", "endpoint, streamed"),
        legend: "{{endpoint}} {{streamed}}",
      },
    ],
  },
];

const processes: Panel[] = [
  {
    title: "Processes by service",
    description: "Processes that are scraped.",
    unit: "short",
    queries: [{ expr: sumOf("model_relay_build_info", "service, version"), legend: "{{service}} {{version}}" }],
  },
  {
    title: "Event loop lag, p99",
    description: "The worst process of each service.",
    unit: "s",
    queries: [{ expr: greatest("nodejs_eventloop_lag_p99_seconds", "service"), legend: "{{service}}" }],
  },
  {
    title: "Certificates: time left",
    description: "Of the certificate that ends first; 14 days are a ticket, 2 a page.",
    unit: "s",
    queries: [
      {
        expr: 'min by (service, use) (tls_certificate_not_after_seconds{namespace=~"$namespace"}) - time()',
        legend: "{{service}} {{use}}",
      },
    ],
  },
  {
    title: "Counts beyond the cap of series",
    description: "Went to the series `other`, because a metric had as many series as it may.",
    unit: "short",
    queries: [{ expr: grownBy("metrics_series_dropped_total", "service, metric"), legend: "{{service}} {{metric}}" }],
  },
  {
    title: "Time of a scrape",
    description: "A process does nothing else while it writes its metrics.",
    unit: "s",
    queries: [
      {
        expr: 'max by (job) (scrape_duration_seconds{namespace=~"$namespace"} and on (job) model_relay_build_info)',
        legend: "{{job}}",
      },
    ],
  },
  {
    title: "Series of a scrape",
    description: "At most 10,000 of one process are planned for.",
    unit: "short",
    queries: [
      {
        expr: 'max by (job) (scrape_samples_scraped{namespace=~"$namespace"} and on (job) model_relay_build_info)',
        legend: "{{job}}",
      },
    ],
  },
];

export const fleet: Dashboard = {
  uid: "model-relay-fleet",
  title: "Fleet",
  description: "Whether callers are served: budgets, traffic, errors, added time, processes.",
  rows: [
    { title: "Budgets of 30 days", panels: slos.map(budgetPanel) },
    { title: "Burn", panels: slos.map(burnPanel) },
    { title: "Traffic", panels: traffic },
    { title: "Time", panels: latency },
    { title: "Processes", panels: processes },
  ],
};
