import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoadReport } from "./load-plan.ts";
import { loads } from "./loads.ts";
import { renderErrors, renderRows, summarize, type Window } from "./results.ts";

function report(fields: Partial<LoadReport>): LoadReport {
  return {
    calls: 0,
    chunks: 0,
    windowUs: 2_000_000,
    callUs: { p50: 1_500, p99: 9_000 },
    chunkUs: { p50: Number.NaN, p99: Number.NaN },
    use: { cpuUs: 1_900_000, residentMb: 80 },
    companionsCpuUs: 0,
    errors: 0,
    complaints: [],
    allCalls: { whole: 10, broken: 0 },
    ...fields,
  };
}

const [json] = loads;
assert.ok(json);
const windows: Window[] = [
  { round: 1, load: json.name, target: "bare", report: report({ calls: 40_000 }) },
  { round: 2, load: json.name, target: "bare", report: report({ calls: 20_000 }) },
  { round: 2, load: json.name, target: "relay", report: report({ calls: 10_000 }) },
  { round: 1, load: json.name, target: "relay", report: report({ calls: 20_000 }) },
];

test("figures are per second and per call, and ratios are taken within a round", () => {
  const rows = summarize([json], windows);
  const calls = rows.find(({ figure }) => figure === "calls/s");
  assert.deepEqual(calls?.spreads.bare, { median: 15_000, least: 10_000, greatest: 20_000 });
  assert.equal(calls.relayToBare, 0.5);
  const cpu = rows.find(({ figure }) => figure === "CPU µs per call");
  assert.deepEqual(cpu?.spreads.relay, { median: 142.5, least: 95, greatest: 190 });
  assert.equal(cpu.relayToBare, 2);
});

test("a target that was left out shows dashes", () => {
  const line = renderRows(summarize([json], windows))
    .split("\n")
    .find((text) => text.includes("calls/s"));
  assert.match(line ?? "", /15,000 \(10,000…20,000\) \| +– \| +7,500 \(5,000…10,000\) \| +0\.50x \| +–/);
});

test("a run with errors says so, loudly and with the reason", () => {
  assert.equal(renderErrors(windows), "");
  const broken = report({ errors: 3, complaints: ["status 503: busy"] });
  const text = renderErrors([...windows, { round: 2, load: json.name, target: "relay", report: broken }]);
  assert.match(text, /^!!! THIS RUN HAD ERRORS/);
  assert.match(text, /relay, JSON, 64 connections, round 2: 3 of 13 calls — status 503: busy/);
});
