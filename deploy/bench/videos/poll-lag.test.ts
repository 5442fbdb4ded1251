import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { createMetrics } from "../../../services/video-task/metrics.ts";
import { pollLagBetween, pollLagQuantile, pollsOf, parsePollLag } from "./poll-lag.ts";

test("of two readings of the service's own metrics, the polls between them count, spread evenly in their bucket", async () => {
  const registry = new Registry();
  const { pollLag } = createMetrics(registry);
  pollLag.observe(0.05);
  const before = parsePollLag(await registry.metrics());
  for (let polls = 0; polls < 90; polls += 1) pollLag.observe(0.3);
  for (let polls = 0; polls < 10; polls += 1) pollLag.observe(0.8);
  const lag = pollLagBetween(before, parsePollLag(await registry.metrics()));
  assert.equal(pollsOf(lag), 100);
  assert.equal(pollLagQuantile(lag, 0.45), 0.1 + 0.4 / 2);
  assert.equal(pollLagQuantile(lag, 0.95), 0.75);
});

test("later than the last bound is told as that bound, and nothing without polls", () => {
  const late = {
    upTo: new Map([
      [900, 0],
      [Infinity, 3],
    ]),
  };
  assert.equal(pollLagQuantile(late, 0.5), 900);
  assert.ok(Number.isNaN(pollLagQuantile(parsePollLag(""), 0.5)));
});
