import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createStop, pause, unlessStopped, type Stop } from "./stop.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

async function waitForWork(stop: Stop): Promise<WeakRef<object>> {
  const result = { text: "a" };
  await unlessStopped(Promise.resolve(result), stop);
  return new WeakRef(result);
}

test("what was waited for is let go of, however long the stop does not come", async () => {
  const stop = createStop();
  const result = await waitForWork(stop);
  await turn();
  collect();
  assert.equal(result.deref(), undefined);
});

test("the stop ends all that wait, and what waits after it", async () => {
  const stop = createStop();
  const hour = 3_600_000;
  const waiting = [pause(hour, stop), pause(hour, stop), unlessStopped(new Promise(() => undefined), stop)];
  stop.stop();
  await Promise.all([...waiting, pause(hour, stop), stop.stopped]);
  assert.ok(stop.isStopped());
});

test("work that fails is told of, and what was taken back is not called", async () => {
  const stop = createStop();
  await assert.rejects(unlessStopped(Promise.reject(new Error("failed")), stop), /failed/);
  let calls = 0;
  const takeBack = stop.onStop(() => (calls += 1));
  stop.onStop(() => (calls += 10));
  takeBack();
  stop.stop();
  assert.equal(calls, 10);
});
