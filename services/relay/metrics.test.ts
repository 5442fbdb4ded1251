import assert from "node:assert/strict";
import { test } from "node:test";
import { grpcMetrics } from "#shared/grpc/metrics.ts";
import type { Counters, Histograms } from "#shared/metrics/metrics.ts";
import { endNames } from "#shared/money/end-name.ts";
import { metricsText } from "#shared/metrics/text.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import { callOutcomes } from "./report/call-outcome.ts";
import { dialects } from "./dialects/index.ts";
import { failures } from "./failures.ts";
import { watchUpstreams } from "./upstream/gauges.ts";
import { createMetrics } from "./metrics.ts";
import { obstacles } from "./upstream/health.ts";
import { upstreamFaults } from "./upstream/faults.ts";

type Labelled = Counters<string> | Histograms<string>;

const ends = endNames;
const attempts = [...Object.keys(failures), "answered", "not_sent", "client_gone"];

/** Every value of the labels that are ours, and more of the others than any catalog or caller has. */
const flood = (label: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${label}-${n}`);

function combinations(values: [string, readonly string[]][]): Record<string, string>[] {
  const [first, ...rest] = values;
  if (!first) return [{}];
  const [name, own] = first;
  return combinations(rest).flatMap((others) => own.map((value) => ({ [name]: value, ...others })));
}

function fill(metric: Labelled, values: Record<string, readonly string[]>): void {
  for (const labels of combinations(Object.entries(values))) metric.of(labels);
}

const registry = createRegistry("relay");
const metrics = createMetrics(registry);
grpcMetrics(registry);
watchUpstreams(registry, {
  list: () => flood("upstream", 3_000).map((name) => ({ name, underWay: 1, circuit: "open" })),
});

const upstream = flood("upstream", 3_000);
const endpoint = [...Object.values(dialects).map(({ path }) => path), ...flood("endpoint", 40)];

test("filled with whatever comes, all metrics together stay under 10,000 series, and no value is lost", async () => {
  fill(metrics.calls, { endpoint, status: ["200", "400", "499", "503"], end: ends, outcome: callOutcomes });
  fill(metrics.modelCalls, { model: flood("model", 40), upstream: upstream.slice(0, 40), outcome: callOutcomes });
  fill(metrics.callSeconds, { endpoint, streamed: ["true", "false"] });
  fill(metrics.timeToFirstByte, { endpoint, streamed: ["true", "false"] });
  fill(metrics.addedLatency, { endpoint });
  fill(metrics.droppedFields, { field: flood("field", 1_000) });
  for (const metric of [metrics.gaps, metrics.firstByteSeconds, metrics.failovers, metrics.usageMismatches])
    fill(metric, { upstream });
  fill(metrics.freeCalls, { upstream });
  fill(metrics.streamEnds, { upstream, reason: ends });
  fill(metrics.upstreamAttempts, { upstream, outcome: attempts });
  fill(metrics.upstreamSkips, { upstream, reason: obstacles });
  fill(metrics.coolDowns, { upstream, reason: obstacles });
  fill(metrics.faults, { upstream, reason: upstreamFaults });
  fill(metrics.unpricedUnits, { bucket: usageBuckets, upstream });
  const text = await metricsText(registry, { service: "relay", isOpenMetrics: false });
  const series = text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).length;
  assert.ok(series > 9_000 && series <= 10_000, `${series} series`);
  assert.ok(text.length < 1_500_000, `${text.length} bytes`);
  for (const name of ["relay_calls_total", "relay_model_calls_total", "relay_inter_chunk_seconds"]) {
    assert.match(text, new RegExp(`^metrics_series_dropped_total\\{metric="${name}"`, "m"));
  }
});

test("a label set that has its room keeps it, however many come after it", async () => {
  const { values } = await metrics.faults.get();
  assert.ok(values.some(({ labels }) => labels["upstream"] === "upstream-0"));
  assert.ok(values.some(({ labels }) => labels["upstream"] === "other"));
});
