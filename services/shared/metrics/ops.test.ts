import assert from "node:assert/strict";
import { test } from "node:test";
import { Counter } from "prom-client";
import { histogram } from "./metrics.ts";
import { metricsText } from "./text.ts";
import { createRegistry, serveOps } from "./ops.ts";

const anyPort = { host: "127.0.0.1", port: 0 };

async function ask(port: number, path: string): Promise<{ status: number; type: string | null; body: string }> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: answer.status, type: answer.headers.get("content-type"), body: await answer.text() };
}

test("/livez answers 200 while the event loop turns, whatever /readyz says", async () => {
  await using ops = await serveOps(anyPort, createRegistry("relay"), () => ["no upstream"]);
  assert.deepEqual(await ask(ops.port, "/livez"), { status: 200, type: "text/plain; charset=utf-8", body: "ok\n" });
});

test("/readyz is 503 with one reason per line until there is none", async () => {
  const reasons = ["auth-quota is not connected", "catalog is not read"];
  await using ops = await serveOps(anyPort, createRegistry("relay"), () => reasons);
  const notReady = await ask(ops.port, "/readyz");
  assert.deepEqual([notReady.status, notReady.body], [503, "auth-quota is not connected\ncatalog is not read\n"]);
  reasons.length = 0;
  const ready = await ask(ops.port, "/readyz");
  assert.deepEqual([ready.status, ready.body], [200, "ok\n"]);
});

test("/metrics is Prometheus text: the service's own metrics and Node's, each with the service as label", async () => {
  const registry = createRegistry("relay");
  new Counter({ name: "relay_calls_total", help: "Calls.", registers: [registry] }).inc(3);
  await using ops = await serveOps(anyPort, registry, () => []);
  const { status, type, body } = await ask(ops.port, "/metrics");
  assert.equal(status, 200);
  assert.match(type ?? "", /^text\/plain; version=0\.0\.4/);
  assert.match(body, /^relay_calls_total\{service="relay"\} 3$/m);
  assert.match(body, /^nodejs_eventloop_lag_seconds\{service="relay"\} /m);
});

test("/metrics is OpenMetrics for scrapers that ask for it, and plain again for the next", async () => {
  const registry = createRegistry("relay");
  const seconds = histogram(registry, { name: "relay_overhead_seconds", help: "Overhead.", buckets: [1] });
  seconds.observe(0.5, "0af7651916cd43dd8448eb211c80319c");
  await using ops = await serveOps(anyPort, registry, () => []);
  const accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
  const answer = await fetch(`http://127.0.0.1:${ops.port}/metrics`, { headers: { accept } });
  assert.match(answer.headers.get("content-type") ?? "", /^application\/openmetrics-text; version=1\.0\.0/);
  assert.match(await answer.text(), /# \{trace_id="0af7651916cd43dd8448eb211c80319c"\} 0\.5 [\s\S]*# EOF\n$/);
  const { body } = await ask(ops.port, "/metrics");
  assert.doesNotMatch(body, /trace_id|# EOF/);
  assert.match(body, /^process_cpu_seconds_total\{service="relay"\} /m);
});

test("which version runs is told", async () => {
  const text = await metricsText(createRegistry("relay"), { service: "relay", isOpenMetrics: false });
  assert.match(text, /^model_relay_build_info\{version="\d+\.\d+\.\d+",node_version="v\d+[^"]*",service="relay"\} 1$/m);
});

test("a metric that cannot be collected answers 500 without its error", async () => {
  const registry = createRegistry("relay");
  const collect = (): never => {
    throw new Error("hunter2");
  };
  registry.registerMetric(new Counter({ name: "relay_broken_total", help: "Broken.", registers: [], collect }));
  await using ops = await serveOps(anyPort, registry, () => []);
  const { status, body } = await ask(ops.port, "/metrics");
  assert.deepEqual([status, body], [500, "metrics failed\n"]);
});

test("any other path is 404", async () => {
  await using ops = await serveOps(anyPort, createRegistry("relay"), () => []);
  assert.equal((await ask(ops.port, "/")).status, 404);
  assert.equal((await ask(ops.port, "/livez/deeper")).status, 404);
});

test("a port that is taken is an error at the start, not a silent service", async () => {
  await using ops = await serveOps(anyPort, createRegistry("relay"), () => []);
  const second = serveOps({ host: "127.0.0.1", port: ops.port }, createRegistry("relay"), () => []);
  await assert.rejects(second, { code: "EADDRINUSE" });
});

test("disposal does not wait for clients, not even in the middle of an answer", async () => {
  const registry = createRegistry("relay");
  const asked = Promise.withResolvers<void>();
  const collect = (): Promise<void> => {
    asked.resolve();
    return new Promise(() => {});
  };
  new Counter({ name: "relay_slow_total", help: "Slow.", registers: [registry], collect });
  const ops = await serveOps(anyPort, registry, () => []);
  const cut = assert.rejects(ask(ops.port, "/metrics"));
  await asked.promise;
  await ops[Symbol.asyncDispose]();
  await cut;
  await assert.rejects(ask(ops.port, "/livez"));
});
