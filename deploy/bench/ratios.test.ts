import assert from "node:assert/strict";
import { test } from "node:test";
import { isMet } from "./bars.ts";
import { cpuPerCall, cpuPerChunk } from "./figures.ts";
import { cellLoads, commonLoads } from "./loads.ts";
import { barsOf, ratios, spreadOfRatio } from "./ratios.ts";

const small = "1 KB, 64 connections";

test("every ratio of a load and its CPU names a load that there is", () => {
  const loads = new Set([...commonLoads, ...cellLoads].map(({ name }) => name));
  const places = ratios.flatMap(({ of, to }) => [of, ...(to ? [to] : [])]);
  const ofLoads = places.filter(({ figure }) => figure === cpuPerCall || figure === cpuPerChunk);
  assert.deepEqual(
    ofLoads.filter(({ load }) => !loads.has(load)),
    [],
  );
  assert.equal(new Set(ratios.map(({ what }) => what)).size, ratios.length);
});

test("bars are told of what was measured, and none of what was left out", () => {
  const measured = [
    { round: 1, load: small, figure: cpuPerCall, target: "relay" as const, value: 90 },
    { round: 1, load: small, figure: cpuPerCall, target: "pipe" as const, value: 100 },
    { round: 1, load: small, figure: cpuPerCall, target: "bare" as const, value: 45 },
  ];
  const bars = barsOf(measured);
  assert.deepEqual(
    bars.map((bar) => [bar.measured.median, isMet(bar)]),
    [
      [0.9, true],
      [2, false],
    ],
  );
});

test("a bar without another side is the figure itself", () => {
  const alone = ratios.find(({ to }) => to === undefined);
  assert.ok(alone);
  const measured = [{ ...alone.of, round: 1, value: 33 }];
  assert.equal(spreadOfRatio(alone, measured).median, 33);
});
