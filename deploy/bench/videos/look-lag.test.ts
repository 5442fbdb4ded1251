import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { createMetrics } from "../../../services/video-task/metrics.ts";
import { lookLagBetween, lookLagQuantile, looksOf, parseLookLag } from "./look-lag.ts";

test("of two readings of the service's own metrics, the looks between them count, spread evenly in their bucket", async () => {
  const registry = new Registry();
  const { lookLag } = createMetrics(registry);
  lookLag.observe(0.05);
  const before = parseLookLag(await registry.metrics());
  for (let looks = 0; looks < 90; looks += 1) lookLag.observe(0.3);
  for (let looks = 0; looks < 10; looks += 1) lookLag.observe(0.8);
  const lag = lookLagBetween(before, parseLookLag(await registry.metrics()));
  assert.equal(looksOf(lag), 100);
  assert.equal(lookLagQuantile(lag, 0.45), 0.1 + 0.4 / 2);
  assert.equal(lookLagQuantile(lag, 0.95), 0.75);
});

test("later than the last bound is told as that bound, and nothing without looks", () => {
  const late = {
    upTo: new Map([
      [900, 0],
      [Infinity, 3],
    ]),
  };
  assert.equal(lookLagQuantile(late, 0.5), 900);
  assert.ok(Number.isNaN(lookLagQuantile(parseLookLag(""), 0.5)));
});
