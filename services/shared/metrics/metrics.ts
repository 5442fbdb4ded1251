import type { Registry } from "prom-client";
import {
  childrenOf,
  countDropped,
  register,
  type Count,
  type Described,
  type Exemplar,
  type Labels,
  type Level,
  type Series,
  type Spread,
} from "./family.ts";

// Metrics whose label sets are bounded and which cost some ten nanoseconds to change. prom-client's own take half a
// microsecond, and a dozen are changed for each call; ours stand in its registry like any other.

function createCount(): Count {
  const count: Count = { value: 0, inc: (by = 1) => void (count.value += by) };
  return count;
}

function createLevel(): Level {
  const level: Level = {
    value: 0,
    set: (value) => void (level.value = value),
    inc: () => void (level.value += 1),
    dec: () => void (level.value -= 1),
  };
  return level;
}

function createSpread(buckets: readonly number[]): Spread {
  const counts = new Float64Array(buckets.length + 1);
  const exemplars: (Exemplar | undefined)[] = [];
  const spread: Spread = {
    counts,
    sum: 0,
    exemplars,
    observe: (value, traceId = "") => {
      let bucket = 0;
      while (bucket < buckets.length && value > (buckets[bucket] ?? 0)) bucket += 1;
      counts[bucket] = (counts[bucket] ?? 0) + 1;
      spread.sum += value;
      if (traceId !== "") exemplars[bucket] = { traceId, value, atMs: Date.now() };
    },
  };
  return spread;
}

/** A counter without labels. */
export function counter(registry: Registry, described: Described) {
  const { of, get } = counters(registry, described);
  return Object.assign(of({}), { get });
}

/** A counter by labels; `of` gives the one to change often. */
export function counters<L extends string = never>(registry: Registry, described: Described<L>) {
  const { of, all } = childrenOf(registry, described, createCount);
  const { get } = register(registry, { ...described, type: "counter", series: all });
  return { of, get, inc: (labels: Labels<L>, by = 1): void => of(labels).inc(by) };
}

export type Counters<L extends string> = ReturnType<typeof counters<L>>;

/** A gauge without labels. `read` gives its value when it is scraped; left out: as it was set last. */
export function gauge(registry: Registry, { read, ...described }: Described & { read?: () => number }) {
  const { of, get } = gauges(registry, read ? { ...described, read: (set) => set({}, read()) } : described);
  return Object.assign(of({}), { get });
}

/** Reads the gauges of a metric anew. */
export type ReadLevels<L extends string> = (set: (labels: Labels<L>, value: number) => void) => void;

/** A gauge by labels. `read` gives all of its values when it is scraped; left out: as they were set last. */
export function gauges<L extends string = never>(
  registry: Registry,
  { read, ...described }: Described<L> & { read?: ReadLevels<L> },
) {
  const { of, all, clear } = childrenOf(registry, described, createLevel);
  const set = (labels: Labels<L>, value: number): void => of(labels).set(value);
  const series = (): Iterable<Series<Level>> => {
    if (read) clear();
    read?.(set);
    return all();
  };
  const { get } = register(registry, { ...described, type: "gauge", series });
  return { of, get, set };
}

type WithBuckets = { buckets: readonly number[] };

/** A histogram without labels. */
export function histogram(registry: Registry, described: Described & WithBuckets) {
  const { of, get } = histograms(registry, described);
  return Object.assign(of({}), { get });
}

/** A histogram by labels; `of` gives the one to change often. */
export function histograms<L extends string = never>(registry: Registry, described: Described<L> & WithBuckets) {
  const { of, all } = childrenOf(registry, described, () => createSpread(described.buckets));
  const { get } = register(registry, { ...described, type: "histogram", series: all });
  return {
    of,
    get,
    observe: (labels: Labels<L>, value: number, traceId = ""): void => of(labels).observe(value, traceId),
  };
}

export type Histograms<L extends string> = ReturnType<typeof histograms<L>>;

/** Declares the count of what found no room in the metrics of a registry. */
export function declareDropped(registry: Registry): void {
  const help = "Times a metric had no room for another label set, so that its value was counted as other.";
  const count = counters(registry, { name: "metrics_series_dropped_total", help, labels: ["metric"] });
  countDropped(registry, (metric) => count.inc({ metric }));
}
