import assert from "node:assert/strict";
import { test } from "node:test";
import { startMeter } from "./cpu-meter.ts";

test("a window is the difference of its ends; a reader without figures is told as such and spoils nothing", () => {
  let usedUs = 1_000;
  const stop = startMeter({ server: () => usedUs, none: () => Number.NaN });
  usedUs += 250;
  const { cpuUs, elapsedMs, othersPercent } = stop();
  assert.deepEqual(cpuUs, { server: 250, none: Number.NaN });
  assert.ok(elapsedMs >= 0 && othersPercent >= 0);
});
