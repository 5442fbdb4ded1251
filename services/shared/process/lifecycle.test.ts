import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { drainMsAfter, every, stopSignal } from "./lifecycle.ts";
import { createLog } from "./log.ts";

const silent = createLog("test", "silent");

/** A process that waits for its stop signal, tells it, and then hangs as if its drain never ended. */
async function startWaiting(): Promise<ChildProcessWithoutNullStreams> {
  const script = `
    import { stopSignal } from ${JSON.stringify(import.meta.resolve("./lifecycle.ts"))};
    const stopped = stopSignal();
    process.stdout.write("waiting");
    setInterval(() => {}, 1000);
    process.stdout.write(await stopped);`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script]);
  assert.equal(String(await once(child.stdout, "data")), "waiting");
  return child;
}

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`the first ${signal} asks to stop, the second one ends the process at once with code 1`, async () => {
    const child = await startWaiting();
    child.kill(signal);
    assert.equal(String(await once(child.stdout, "data")), signal);
    const ended = once(child, "exit");
    child.kill(signal);
    assert.deepEqual(await ended, [1, null]);
  });
}

for (const fault of ['throw new Error("hunted");', 'void Promise.reject(new Error("hunted"));']) {
  test(`after ${fault} a service is asked to stop, says why, and exits with code 1`, async () => {
    const script = `
      import { stopOrFault } from ${JSON.stringify(import.meta.resolve("./lifecycle.ts"))};
      import { createLog } from ${JSON.stringify(import.meta.resolve("./log.ts"))};
      const stopped = stopOrFault(createLog("test", "info"));
      setImmediate(() => { ${fault} });
      process.stdout.write("stopped by " + await stopped);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script]);
    let output = "";
    child.stdout.on("data", (data) => (output += String(data)));
    assert.deepEqual(await once(child, "close"), [1, null]);
    assert.match(output, /stopped by fault/);
    assert.match(output, /"level":"fatal".*hunted.*uncaught exception/);
  });
}

test("after a fault a drain is over before the process exits", () => {
  assert.equal(drainMsAfter("SIGTERM", 600_000), 600_000);
  assert.equal(drainMsAfter("fault", 600_000), 5_000);
  assert.equal(drainMsAfter("fault", 0), 0);
});

test("nobody is asked to stop before a signal comes", async () => {
  const before = process.listenerCount("SIGTERM");
  const answer = await Promise.race([stopSignal(), Promise.resolve("still running")]);
  assert.equal(answer, "still running");
  assert.equal(process.listenerCount("SIGTERM"), before + 1);
  process.removeAllListeners("SIGTERM").removeAllListeners("SIGINT");
});

test("periodic work comes again after a failure, and the failure is logged", async () => {
  const logged: string[] = [];
  const log = createLog("test", "error", { write: (line) => void logged.push(line) });
  const thirdRun = Promise.withResolvers<void>();
  let runs = 0;
  await using _work = every(
    1,
    async () => {
      runs += 1;
      if (runs === 3) thirdRun.resolve();
      throw new Error(`run ${runs}`);
    },
    log,
  );
  await thirdRun.promise;
  assert.match(logged[0] ?? "", /run 1.*periodic work failed/);
  assert.match(logged[1] ?? "", /run 2/);
});

test("runs never overlap, and disposal waits for the run under way and starts no other", async () => {
  const started = Promise.withResolvers<void>();
  const mayEnd = Promise.withResolvers<void>();
  let running = 0;
  let runs = 0;
  const work = every(
    1,
    async () => {
      running += 1;
      runs += 1;
      assert.equal(running, 1);
      started.resolve();
      await mayEnd.promise;
      running -= 1;
    },
    silent,
  );
  await started.promise;
  let isDisposed = false;
  const disposed = work[Symbol.asyncDispose]().then(() => (isDisposed = true));
  await setImmediate();
  assert.equal(isDisposed, false);
  mayEnd.resolve();
  await disposed;
  assert.deepEqual([running, runs], [0, 1]);
});

test("disposal between two runs does not wait for the interval", async () => {
  let runs = 0;
  const work = every(
    3_600_000,
    async () => {
      runs += 1;
    },
    silent,
  );
  await work[Symbol.asyncDispose]();
  assert.equal(runs, 0);
});
