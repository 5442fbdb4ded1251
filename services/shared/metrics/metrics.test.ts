import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { counter, counters, declareDropped, gauge, gauges, histograms } from "./metrics.ts";
import { metricsText } from "./text.ts";

const plain = { service: "relay", isOpenMetrics: false };

/** The samples of a registry of ours, without heads. */
async function samplesOf(registry: Registry, isOpenMetrics = false): Promise<string[]> {
  const text = await metricsText(registry, { ...plain, isOpenMetrics });
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

test("a counter counts by its labels, and one without labels is there from the start", async () => {
  const registry = new Registry();
  counter(registry, { name: "a_total", help: "A." }).inc();
  counter(registry, { name: "b_total", help: "B." });
  const calls = counters(registry, { name: "calls_total", help: "Calls.", labels: ["endpoint", "end"] });
  calls.inc({ endpoint: "/v1", end: "complete" });
  calls.of({ end: "complete", endpoint: "/v1" }).inc(2);
  calls.inc({ endpoint: "/v1", end: "cut" });
  assert.deepEqual(await samplesOf(registry), [
    'a_total{service="relay"} 1',
    'b_total{service="relay"} 0',
    'calls_total{endpoint="/v1",end="complete",service="relay"} 3',
    'calls_total{endpoint="/v1",end="cut",service="relay"} 1',
  ]);
});

test("a gauge is what was set last, or what is read when it is scraped", async () => {
  const registry = new Registry();
  let size = 1;
  let upstreams = ["a", "b"];
  const live = gauge(registry, { name: "live", help: "Live." });
  gauge(registry, { name: "size", help: "Size.", read: () => size });
  gauges(registry, {
    name: "circuit",
    help: "Circuit.",
    labels: ["upstream"],
    read: (set) => upstreams.forEach((upstream, index) => set({ upstream }, index)),
  });
  live.inc();
  live.inc();
  live.dec();
  const read = () => samplesOf(registry);
  const first = ['live{service="relay"} 1', 'size{service="relay"} 1'];
  const circuits = ['circuit{upstream="a",service="relay"} 0', 'circuit{upstream="b",service="relay"} 1'];
  assert.deepEqual(await read(), [...first, ...circuits]);
  size = 7;
  upstreams = ["b"];
  live.set(5);
  const later = ['live{service="relay"} 5', 'size{service="relay"} 7', 'circuit{upstream="b",service="relay"} 0'];
  assert.deepEqual(await read(), later);
});

test("a histogram's buckets hold what is not above them, and all that is below", async () => {
  const registry = new Registry();
  const seconds = histograms(registry, { name: "s", help: "S.", labels: ["phase"], buckets: [0.5, 1] });
  for (const value of [0.5, 0.75, 1, 3]) seconds.observe({ phase: "total" }, value);
  assert.deepEqual(await samplesOf(registry), [
    's_bucket{le="0.5",phase="total",service="relay"} 1',
    's_bucket{le="1",phase="total",service="relay"} 3',
    's_bucket{le="+Inf",phase="total",service="relay"} 4',
    's_sum{phase="total",service="relay"} 5.25',
    's_count{phase="total",service="relay"} 4',
  ]);
});

test("prom-client's own text shows the same samples", async () => {
  const registry = new Registry();
  counters(registry, { name: "a_total", help: "A.", labels: ["b"] }).inc({ b: "c" }, 3);
  histograms(registry, { name: "s", help: "S.", labels: ["phase"], buckets: [1] }).observe({ phase: "x" }, 2);
  const ours = (await samplesOf(registry)).map((line) => line.replaceAll(/,?service="relay"/g, "").replace("{}", ""));
  const theirs = (await registry.metrics()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  assert.deepEqual(ours, theirs);
});

test("beyond its most label sets, values that are not ours count as other, and that is counted", async () => {
  const registry = new Registry();
  declareDropped(registry);
  const described = { name: "faults_total", help: "Faults.", labels: ["upstream", "reason"] as const };
  const faults = counters(registry, { ...described, unboundedLabels: ["upstream"], maxSeries: 2 });
  faults.inc({ upstream: "a", reason: "dns" });
  faults.inc({ upstream: "b", reason: "dns" });
  for (const upstream of ["c", "d", "e"]) faults.inc({ upstream, reason: "tls" });
  faults.inc({ upstream: "c", reason: "dns" });
  faults.inc({ upstream: "a", reason: "dns" });
  assert.deepEqual(await samplesOf(registry), [
    'metrics_series_dropped_total{metric="faults_total",service="relay"} 4',
    'faults_total{upstream="a",reason="dns",service="relay"} 2',
    'faults_total{upstream="b",reason="dns",service="relay"} 1',
    'faults_total{upstream="other",reason="tls",service="relay"} 3',
    'faults_total{upstream="other",reason="dns",service="relay"} 1',
  ]);
});

test("labels of ours alone are not bounded: none of them may be lost", async () => {
  const registry = new Registry();
  const many = counters(registry, { name: "many_total", help: "Many.", labels: ["reason"], maxSeries: 2 });
  for (const reason of ["a", "b", "c"]) many.inc({ reason });
  assert.equal((await samplesOf(registry)).length, 3);
});

test("what stands in a label or a help cannot break the text", async () => {
  const registry = new Registry();
  counters(registry, { name: "a_total", help: "One \\ line\nor two.", labels: ["b"] }).inc({ b: 'x"\\\ny' });
  assert.equal(
    await metricsText(registry, plain),
    '# HELP a_total One \\\\ line\\nor two.\n# TYPE a_total counter\na_total{b="x\\"\\\\\\ny",service="relay"} 1\n',
  );
});

test("OpenMetrics names counters without their ending, has exemplars of traced calls, and an end", async () => {
  const registry = new Registry();
  counter(registry, { name: "a_total", help: "A." });
  const seconds = histograms(registry, { name: "s", help: "S.", labels: [], buckets: [1] });
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  seconds.observe({}, 0.25, traceId);
  seconds.observe({}, 0.5);
  seconds.observe({}, 2);
  const text = await metricsText(registry, { ...plain, isOpenMetrics: true });
  assert.match(text, /^# HELP a A\.\n# TYPE a counter\na_total\{service="relay"\} 0\n/);
  assert.match(
    text,
    /^s_bucket\{le="1",service="relay"\} 2 # \{trace_id="0af7651916cd43dd8448eb211c80319c"\} 0\.25 \d+(\.\d+)?$/m,
  );
  assert.match(text, /^s_bucket\{le="\+Inf",service="relay"\} 3$/m);
  assert.match(text, /\n# EOF\n$/);
  assert.doesNotMatch(await metricsText(registry, plain), /trace_id|# EOF/);
  assert.match(await metricsText(registry, plain), /^# TYPE a_total counter$/m, "the names are as before");
});

test("two metrics of one name are an error", () => {
  const registry = new Registry();
  counter(registry, { name: "a_total", help: "A." });
  assert.throws(() => counter(registry, { name: "a_total", help: "A." }), /already been registered/);
});
