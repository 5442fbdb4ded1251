import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const script = join(import.meta.dirname, "watchdog.sh");

// Notes its name and the signal that ended it; says "ready" once it can.
const waiter = `trap 'echo "$0 INT" >>"$1"; kill $!; exit' INT
trap 'echo "$0 TERM" >>"$1"; kill $!; exit' TERM
sleep 60 & echo ready
wait`;

/** A process that waits, and notes in a file which signal ended it: before the next one is sent. */
async function waiting(name: string, file: string) {
  const child = spawn("sh", ["-c", waiter, name, file], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  const end = once(child, "exit");
  return { pid: child.pid, end, [Symbol.dispose]: () => void child.kill("SIGTERM") };
}

test("the watchdog ends what it guards, the last started first and each with its signal, and nothing it was told to forget", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "watchdog-"));
  const order = join(folder.path, "order");
  using store = await waiting("store", order);
  using stranger = await waiting("stranger", order);
  using service = await waiting("service", order);
  const watchdog = spawn("sh", [script], { stdio: ["pipe", "ignore", "inherit"] });
  watchdog.stdin.write(`guard ${store.pid} INT\nguard ${stranger.pid} TERM\nguard ${service.pid} TERM\n`);
  watchdog.stdin.end(`forget ${stranger.pid}\n`);
  await Promise.all([store.end, service.end, once(watchdog, "exit")]);
  assert.equal(readFileSync(order, "utf8"), "service TERM\nstore INT\n");
});
