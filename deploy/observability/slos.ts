/** What callers or the billing team are promised, as a share of good events over 30 days. */
export type Slo = {
  /** The name of its alerts. */
  alert: string;
  title: string;
  /** Each endpoint has a budget of its own: one with few calls is not hidden behind one with many. */
  isByEndpoint: boolean;
  /** Why the target is what it is. */
  why: string;
  /** Share of events that may be bad, times 1. */
  budget: number;
  /** What a bad event is, as alerts say it. */
  bad: string;
  /** First two parts of the names of its recording rules: of bad events, and of all that count. */
  badRecord: string;
  allRecord: string;
  /** Bad events, and all that count, per second within a window. */
  badRate: (window: string) => string;
  allRate: (window: string) => string;
};

const calls = (matcher: string, window: string): string =>
  `sum by (namespace) (rate(relay_calls_total{${matcher}}[${window}]))`;
// A process that never failed has no series of failed calls.
const failed = (outcomes: string, all: string, window: string): string =>
  `(${calls(outcomes, window)} or 0 * ${all}:rate5m)`;

type Bound = { histogram: string; matcher?: string; le: string; by: string };

/** Observations of a histogram, and those above a bound, which is one of its buckets. */
function above({ histogram, matcher = "", le, by }: Bound): Pick<Slo, "badRate" | "allRate"> {
  const sum = (series: string, window: string): string => `sum by (${by}) (rate(${series}[${window}]))`;
  const all = `${histogram}_count${matcher && `{${matcher}}`}`;
  const within = `${histogram}_bucket{${matcher && `${matcher},`}${le}}`;
  return {
    badRate: (window) => `(${sum(all, window)} - ${sum(within, window)})`,
    allRate: (window) => sum(all, window),
  };
}

// Prometheus 3 writes whole bounds with a decimal place.
const decimal = "([.]0)?";

export const slos: Slo[] = [
  {
    alert: "RelayAvailabilityBurn",
    isByEndpoint: false,
    title: "Availability of the gateway",
    why: "What is ours to prevent. Failures of providers, callers and accounts are in neither number.",
    budget: 0.0005,
    bad: "calls failed by the gateway's own fault",
    badRecord: "namespace:relay_calls_gateway_error",
    allRecord: "namespace:relay_calls_gateway_counted",
    badRate: (window) => failed('outcome="gateway_error"', "namespace:relay_calls_gateway_counted", window),
    allRate: (window) => calls('outcome!~"client_error|quota_denied|upstream_error|client_gone"', window),
  },
  {
    alert: "RelayCallerAvailabilityBurn",
    isByEndpoint: false,
    title: "Availability as callers see it",
    why: "Callers do not care whose fault it was: failures of providers that no other route made good count, too.",
    budget: 0.005,
    bad: "calls failed, whoever's fault it was",
    badRecord: "namespace:relay_calls_caller_error",
    allRecord: "namespace:relay_calls_caller_counted",
    badRate: (window) =>
      failed('outcome=~"gateway_error|upstream_error|draining"', "namespace:relay_calls_caller_counted", window),
    allRate: (window) => calls('outcome!~"client_error|quota_denied|client_gone"', window),
  },
  {
    alert: "RelayLatencyBurn",
    isByEndpoint: true,
    title: "Added latency",
    why: "The relay's own share of the time to the first byte; a provider's or a caller's time is not in it.",
    budget: 0.01,
    bad: "calls had more than 25 ms added to them",
    badRecord: "namespace_endpoint:relay_added_latency_slow",
    allRecord: "namespace_endpoint:relay_added_latency_counted",
    ...above({ histogram: "relay_added_latency_seconds", le: 'le="0.025"', by: "namespace, endpoint" }),
  },
  {
    alert: "RelayFirstTokenBurn",
    isByEndpoint: true,
    title: "Time to first token",
    why: "What somebody who waits for a stream notices, the provider's time included. Whole answers are not in it.",
    budget: 0.05,
    bad: "streams began more than 5 s after their request",
    badRecord: "namespace_endpoint:relay_first_token_slow",
    allRecord: "namespace_endpoint:relay_first_token_counted",
    ...above({
      histogram: "relay_time_to_first_byte_seconds",
      matcher: 'streamed="true"',
      le: `le=~"5${decimal}"`,
      by: "namespace, endpoint",
    }),
  },
  {
    alert: "SettlementFreshnessBurn",
    isByEndpoint: false,
    title: "Freshness of the ledger",
    why: "Balances, limits of keys and the billing team's events are as old as this.",
    budget: 0.0001,
    bad: "calls were booked more than 60 s after their end",
    badRecord: "namespace:billing_events_late",
    allRecord: "namespace:billing_events_counted",
    ...above({ histogram: "billing_event_age_seconds", le: `le=~"60${decimal}"`, by: "namespace" }),
  },
];

export type Burn = {
  factor: number;
  long: string;
  longSeconds: number;
  short: string;
  severity: "page" | "ticket";
  for: string;
};

/** How fast a budget of 30 days may burn before somebody is told: both windows must be above the factor. */
export const burns: Burn[] = [
  { factor: 14.4, long: "1h", longSeconds: 3_600, short: "5m", severity: "page", for: "2m" },
  { factor: 6, long: "6h", longSeconds: 21_600, short: "30m", severity: "page", for: "15m" },
  { factor: 3, long: "1d", longSeconds: 86_400, short: "2h", severity: "ticket", for: "1h" },
  { factor: 1, long: "3d", longSeconds: 259_200, short: "6h", severity: "ticket", for: "3h" },
];

/** Fewer bad events in the long window tell nobody anything: where there are few calls, one is a large share. */
export const minBad = 10;
