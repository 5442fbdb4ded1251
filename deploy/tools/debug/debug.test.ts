import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { run } from "../checks/run.ts";

const main = join(import.meta.dirname, "main.ts");

// It is busy in a function with a name, keeps a text, and says with each signal of its parent that it goes on.
const service = `
  globalThis.kept = { text: "kept-" + "in-memory" };
  const workHard = () => { const until = Date.now() + 5; while (Date.now() < until); };
  setInterval(workHard, 10);
  process.on("message", () => process.send("here"));
  process.send("ready");
`;

async function startService() {
  const port = await freePort();
  const child = spawn(process.execPath, [`--inspect-port=${port}`, "-e", service], {
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  await once(child, "message");
  const debug = (command: string, ...more: string[]) =>
    run("node", [main, command, "--pid", String(child.pid), "--port", String(port), ...more], import.meta.dirname);
  return {
    port,
    debug,
    answers: async () => {
      child.send("are you there?");
      assert.deepEqual(await once(child, "message"), ["here", undefined]);
    },
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

const isClosed = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/json/list`).then(
    () => false,
    () => true,
  );

test("a running service is profiled, looked into and measured, goes on, and closes its inspector each time", async () => {
  await using running = await startService();
  // A machine that is busy elsewhere may take no sample of it in one second.
  await until("the busy function is in a profile", async () => {
    const profile = await running.debug("cpu", "--seconds", "1");
    assert.equal(profile.code, 0, profile.errors);
    const { nodes } = JSON.parse(profile.output) as { nodes: { callFrame: { functionName: string } }[] };
    return nodes.some(({ callFrame }) => callFrame.functionName === "workHard");
  });
  await until("the inspector is closed", () => isClosed(running.port));
  await running.answers();

  const heap = await running.debug("heap");
  assert.equal(heap.code, 0, heap.errors);
  const { strings } = JSON.parse(heap.output) as { strings: string[] };
  assert.ok(strings.includes("kept-in-memory"));
  await until("the inspector is closed", () => isClosed(running.port));
  await running.answers();

  const loop = await running.debug("loop", "--seconds", "1");
  assert.equal(loop.code, 0, loop.errors);
  const told = JSON.parse(loop.output) as { delayMs: { p99: number }; utilization: number; activeResources: object };
  assert.ok(told.utilization > 0 && told.delayMs.p99 > 0 && "Timeout" in told.activeResources, loop.output);
  await until("the inspector is closed", () => isClosed(running.port));
  await running.answers();
});

test("what cannot be is told in a sentence", async () => {
  const none = await run("node", [main, "cpu", "--pid", "4194304"], import.meta.dirname);
  assert.deepEqual([none.code, none.output], [1, ""]);
  assert.match(none.errors, /^error: kill ESRCH\n$/);
  const long = await run("node", [main, "cpu", "--seconds", "3600"], import.meta.dirname);
  assert.equal(long.code, 1);
  assert.match(long.errors, /It must be a whole number from 1 to 60\./);
});
