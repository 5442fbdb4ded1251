import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";

const script = join(import.meta.dirname, "watchdog.sh");

/** A process that waits; `end` is how it ended, noted in `order`. */
async function waiting(name: string, order: string[]) {
  const child: ChildProcess = spawn("sleep", ["60"], { stdio: "ignore" });
  await once(child, "spawn");
  const end = new Promise<string>((resolve) => {
    child.once("exit", (_code, signal) => {
      order.push(`${name} ${signal}`);
      resolve(name);
    });
  });
  return { pid: child.pid, end, [Symbol.dispose]: () => void child.kill("SIGKILL") };
}

test("the watchdog ends what it guards, the last started first and each with its signal, and nothing it was told to forget", async () => {
  const order: string[] = [];
  using store = await waiting("store", order);
  using stranger = await waiting("stranger", order);
  using service = await waiting("service", order);
  const watchdog = spawn("sh", [script], { stdio: ["pipe", "ignore", "inherit"] });
  watchdog.stdin.write(`guard ${store.pid} INT\nguard ${stranger.pid} TERM\nguard ${service.pid} TERM\n`);
  watchdog.stdin.end(`forget ${stranger.pid}\n`);
  await Promise.all([store.end, service.end, once(watchdog, "exit")]);
  assert.deepEqual(order, ["service SIGTERM", "store SIGINT"]);
});
