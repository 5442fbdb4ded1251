import type { Registry } from "prom-client";
import {
  familyOf,
  type Counter,
  type Exemplar,
  type Family,
  type Gauge,
  type Series,
  type Histogram,
} from "./family.ts";

export const plainType = "text/plain; version=0.0.4; charset=utf-8";
export const openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

export type Format = { service: string; isOpenMetrics: boolean };

/**
 * What Prometheus reads: its own text or, for scrapers that ask for it, OpenMetrics, which alone has exemplars.
 * (prom-client's own writer takes three times as long for as many series, and forgets the names of counters once it
 * has written OpenMetrics.)
 */
export async function metricsText(registry: Registry, format: Format): Promise<string> {
  const parts: string[] = [];
  for (const metric of registry.getMetricsAsArray()) {
    const family = familyOf(metric);
    parts.push(family ? textOf(family, format) : textOfPlain(await plainOf(metric), format));
  }
  return `${parts.join("")}${format.isOpenMetrics ? "# EOF\n" : ""}`;
}

function headOf({ name, help, type }: { name: string; help: string; type: string }, { isOpenMetrics }: Format): string {
  const shown = isOpenMetrics && type === "counter" ? name.replace(/_total$/, "") : name;
  return `# HELP ${shown} ${escaped(help)}\n# TYPE ${shown} ${type}\n`;
}

const escaped = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

const pairOf = (name: string, value: string | number): string =>
  `${name}="${escaped(String(value)).replaceAll('"', '\\"')}"`;

function labelsText(labels: Record<string, string | number>, service: string): string {
  return [...Object.entries(labels), ["service", service] as const]
    .map(([name, value]) => pairOf(name, value))
    .join(",");
}

function numberText(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : `${value}`;
}

/** The labels of a series never change, so that their text is made once. */
const textOfLabels = (series: Series<unknown>, service: string): string =>
  (series.text ??= labelsText(series.labels, service));

function textOf(family: Family, format: Format): string {
  let text = headOf(family, format);
  if (family.type === "histogram") {
    for (const series of family.series()) text += textOfHistogram(family, series, format);
    return text;
  }
  for (const series of family.series()) text += lineOf(family.name, series, format);
  return text;
}

function lineOf(name: string, series: Series<Counter | Gauge>, { service }: Format): string {
  return `${name}{${textOfLabels(series, service)}} ${numberText(series.child.value)}\n`;
}

function textOfHistogram({ name, buckets = [] }: Family, series: Series<Histogram>, format: Format): string {
  const labels = textOfLabels(series, format.service);
  const { counts, sum, exemplars } = series.child;
  let text = "";
  let count = 0;
  for (let index = 0; index <= buckets.length; index += 1) {
    count += counts[index] ?? 0;
    const exemplar = format.isOpenMetrics ? exemplarText(exemplars[index]) : "";
    text += `${name}_bucket{le="${buckets[index] ?? "+Inf"}",${labels}} ${count}${exemplar}\n`;
  }
  return `${text}${name}_sum{${labels}} ${sum}\n${name}_count{${labels}} ${count}\n`;
}

function exemplarText(exemplar: Exemplar | undefined): string {
  return exemplar ? ` # {trace_id="${exemplar.traceId}"} ${exemplar.value} ${exemplar.atMs / 1_000}` : "";
}

type Plain = {
  name: string;
  help: string;
  type: unknown;
  values: { metricName?: string | undefined; labels: Record<string, string | number | undefined>; value: number }[];
};

const plainOf = (metric: object): Promise<Plain> => (metric as { get: () => Promise<Plain> }).get();

/** The same for what prom-client knows of Node. */
function textOfPlain({ name, help, type, values }: Plain, format: Format): string {
  const lines = values.map(({ metricName = name, labels, value }) => {
    const known = Object.entries(labels).filter((pair): pair is [string, string | number] => pair[1] !== undefined);
    return `${metricName}{${labelsText(Object.fromEntries(known), format.service)}} ${numberText(value)}\n`;
  });
  return headOf({ name, help, type: String(type) }, format) + lines.join("");
}
