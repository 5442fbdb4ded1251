import assert from "node:assert/strict";
import { test } from "node:test";
import { cpuPerCall, figuresOf } from "./figures.ts";
import { addedLatency, halfOf } from "./latency.ts";
import type { LoadReport } from "./load-plan.ts";
import { smallLoad } from "./loads.ts";
import { ratioAt, renderMeasured, type MeasuredKey } from "./measured.ts";
import { manyStreams, memoryFigures, someStreams } from "./memory.ts";
import { maxStreams } from "./open-files.ts";
import type { TargetName } from "./targets.ts";

const never = { p50: Number.NaN, p99: Number.NaN, p999: Number.NaN };

function report(fields: Partial<LoadReport>): LoadReport {
  return {
    calls: 0,
    chunks: 0,
    windowUs: 2_000_000,
    callUs: { p50: 1_500, p99: 9_000, p999: 9_500 },
    firstUs: never,
    chunkUs: never,
    use: { cpuUs: 1_900_000, residentMb: 80 },
    coreBusyUs: 1_900_000,
    open: [],
    errors: 0,
    complaints: [],
    allCalls: { whole: 10, broken: 0 },
    ...fields,
  };
}

// The machine was twice as fast in round 1, for whoever worked then.
const measured = [
  ...figuresOf(1, smallLoad, "bare", report({ calls: 40_000 })),
  ...figuresOf(2, smallLoad, "bare", report({ calls: 20_000 })),
  ...figuresOf(2, smallLoad, "relay", report({ calls: 10_000 })),
  ...figuresOf(1, smallLoad, "relay", report({ calls: 20_000 })),
];
const place = (target: TargetName): MeasuredKey => ({ load: smallLoad.name, figure: cpuPerCall, target });

test("figures are per second and per call, and ratios are taken within a round", () => {
  const lines = renderMeasured(measured).split("\n");
  const calls = lines.find((line) => line.includes("calls/s")) ?? "";
  assert.match(calls, /15,000 \(10,000…20,000\) \| +7,500 \(5,000…10,000\) \| +0\.50x \|$/);
  assert.deepEqual(ratioAt(measured, place("relay"), place("bare")), { median: 2, min: 2, max: 2 });
});

test("a target that was left out has no ratio, and one without a figure shows a dash", () => {
  assert.ok(Number.isNaN(ratioAt(measured, place("relay"), place("portkey")).median));
  const alone = { round: 1, load: "other", figure: "RSS MB", target: "bare" as const, value: 7 };
  assert.match(
    renderMeasured([...measured, alone])
      .split("\n")
      .at(-1) ?? "",
    /RSS MB +\| +7\.00 .*\| +– \| +– \|$/,
  );
});

test("what a proxy adds is the difference to the upstream alone", () => {
  const callUs = (p50: number, p99: number, p999: number) => ({ callUs: { p50, p99, p999 } });
  const added = (kind: "json" | "paced", through: Partial<LoadReport>, alone: Partial<LoadReport>): string[] =>
    addedLatency(
      { round: 1, load: "l", target: "pipe" },
      { load: { kind }, through: report({ calls: 2_000, ...through }), alone: report({ calls: 1_000, ...alone }) },
    ).map(({ figure, value }) => `${figure} ${value}`);
  assert.deepEqual(added("json", callUs(500, 3_000, 9_000), callUs(100, 1_000, 4_000)), [
    "added p50 ms 0.4",
    "added p99 ms 2",
    "added p99.9 ms 5",
  ]);
  const first = added(
    "paced",
    { firstUs: { p50: 700, p99: 1_000, p999: 1 } },
    { calls: 999, firstUs: { p50: 500, p99: 500, p999: 1 } },
  );
  assert.deepEqual(first, ["added first byte p50 ms 0.2", "added first byte p99 ms 0.5"], "too few for a thousandth");
  assert.equal(halfOf([9_001, 5_001]), 2_500);
});

test("what a stream takes of the memory is the growth by the streams that were open", () => {
  const open = [
    { streams: 0, residentMb: 100 },
    { streams: 1_000, residentMb: 120 },
    { streams: 8_192, residentMb: 420 },
  ];
  const perStream = memoryFigures(1, "relay", open).filter(({ figure }) => figure === "RSS KB per stream");
  assert.deepEqual(
    perStream.map(({ load, value }) => [load, value]),
    [
      [someStreams, 20.48],
      [manyStreams, 40],
    ],
  );
  assert.equal(maxStreams(20_000), 9_850);
});
