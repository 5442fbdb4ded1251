import type { Metric, Registry } from "prom-client";

/** The declaration of a metric. */
export type MetricOptions<L extends string = never> = {
  name: string;
  help: string;
  labels?: readonly L[];
  /**
   * Labels whose values others choose. Once there are `maxSeries` label sets, a new value of theirs is counted as
   * "other", and in `metrics_series_dropped_total`.
   */
  unboundedLabels?: readonly L[];
  maxSeries?: number;
};

export type Labels<L extends string> = Readonly<Record<L, string>>;

/** One label set of a counter. */
export type Counter = { value: number; inc: (by?: number) => void };

/** One label set of a gauge. */
export type Gauge = { value: number; set: (value: number) => void; inc: () => void; dec: () => void };

/** A traced call that stands for the observations of a bucket. */
export type Exemplar = { traceId: string; value: number; atMs: number };

/** One label set of a histogram. `traceId` is "" for a call that is not traced. */
export type Histogram = {
  /** By bucket, not cumulative; the last one is +Inf. */
  counts: Float64Array;
  sum: number;
  exemplars: (Exemplar | undefined)[];
  observe: (value: number, traceId?: string) => void;
};

export type Series<C> = { labels: Readonly<Record<string, string>>; child: C; text: string | undefined };

/** A metric as it is scraped. */
export type Family = { name: string; help: string; labels?: readonly string[]; buckets?: readonly number[] } & (
  | { type: "counter" | "gauge"; series: () => Iterable<Series<Counter | Gauge>> }
  | { type: "histogram"; series: () => Iterable<Series<Histogram>> }
);

const families = new WeakMap<object, Family>();

/** The metric behind one that stands in a registry; undefined for prom-client's own. */
export const familyOf = (metric: object): Family | undefined => families.get(metric);

const dropped = new WeakMap<Registry, (metric: string) => void>();

/** Sets what counts the dropped series of a registry; see `Described.unboundedLabels`. */
export function countDropped(registry: Registry, count: (metric: string) => void): void {
  dropped.set(registry, count);
}

const defaultMaxSeries = 500;

type Children<L extends string, C> = {
  of: (labels: Labels<L>) => C;
  all: () => Iterable<Series<C>>;
  clear: () => void;
};

/** The label sets of a metric, found by their values in the order of their names. */
export function childrenOf<L extends string, C>(
  registry: Registry,
  { name, labels: names = [], unboundedLabels = [], maxSeries = defaultMaxSeries }: MetricOptions<L>,
  create: () => C,
): Children<L, C> {
  let root = new Map<string, unknown>();
  let all: Series<C>[] = [];
  const find = (labels: Labels<L>): unknown => {
    if (names.length === 0) return all[0]?.child;
    let found: unknown = root;
    for (const label of names) {
      found = (found as Map<string, unknown>).get(labels[label]);
      if (found === undefined) return undefined;
    }
    return found;
  };
  const add = (labels: Labels<L>): C => {
    const series: Series<C> = { labels: { ...labels }, child: create(), text: undefined };
    all.push(series);
    let branch = root;
    for (const label of names.slice(0, -1)) {
      const next = (branch.get(labels[label]) as Map<string, unknown> | undefined) ?? new Map<string, unknown>();
      branch.set(labels[label], next);
      branch = next;
    }
    const last = names.at(-1);
    if (last !== undefined) branch.set(labels[last], series.child);
    return series.child;
  };
  const addBounded = (labels: Labels<L>): C => {
    if (unboundedLabels.length === 0 || all.length < maxSeries) return add(labels);
    dropped.get(registry)?.(name);
    const others = { ...labels, ...Object.fromEntries(unboundedLabels.map((label) => [label, "other"])) };
    return (find(others) as C | undefined) ?? add(others);
  };
  return {
    of: (labels) => (find(labels) as C | undefined) ?? addBounded(labels),
    all: () => all,
    clear: () => {
      root = new Map();
      all = [];
    },
  };
}

export type Sample = { metricName?: string; labels: Record<string, string | number>; value: number };

/** The samples prom-client reads, so that its own text and JSON formats show our metrics. */
function samplesOf(family: Family): Sample[] {
  if (family.type !== "histogram")
    return [...family.series()].map(({ labels, child }) => ({ labels, value: child.value }));
  const { name, buckets = [] } = family;
  return [...family.series()].flatMap(({ labels, child: { counts, sum } }) => {
    let count = 0;
    const cumulated = [...counts].map((own, index) => {
      count += own;
      return { metricName: `${name}_bucket`, labels: { le: buckets[index] ?? "+Inf", ...labels }, value: count };
    });
    const whole = { metricName: `${name}_count`, labels, value: count };
    return [...cumulated, { metricName: `${name}_sum`, labels, value: sum }, whole];
  });
}

/**
 * Adds a metric to a registry and returns its reader, as prom-client's metrics have. Throws when the name is taken.
 */
export function register(registry: Registry, family: Family): { get: () => Promise<{ values: Sample[] }> } {
  const { name, help, type } = family;
  const get = async () => ({ name, help, type, values: samplesOf(family), aggregator: "sum" });
  const metric = { name, help, type, get };
  families.set(metric, family);
  registry.registerMetric(metric as unknown as Metric);
  return { get };
}
