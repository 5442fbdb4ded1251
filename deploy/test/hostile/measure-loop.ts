import { rmSync } from "node:fs";
import { createServer } from "node:net";
import { createHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";
import type { Figures } from "./figures.ts";

// Loaded into the relay under test with --import. Whoever connects to the socket named by HOSTILE_SOCKET gets the
// figures since the last one did, as one line of JSON; who writes "rest" first, those of a relay that has collected its
// garbage.

const resolutionMs = 1;
const sampleMs = 20;
const nanosPerMs = 1e6;
const microsPerMs = 1e3;
const mebibyte = 1024 * 1024;

function startMeasuring(socketPath: string): void {
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  delay.enable();
  // What of it the loop itself has worked, which is all of it on a quiet machine.
  const work = createHistogram();
  let { user, system } = process.threadCpuUsage();
  setInterval(() => {
    const now = process.threadCpuUsage();
    work.record(Math.max(1, now.user + now.system - user - system));
    ({ user, system } = now);
  }, resolutionMs).unref();
  let peakBytes = 0;
  setInterval(() => (peakBytes = Math.max(peakBytes, process.memoryUsage.rss())), sampleMs).unref();
  const take = (): Figures => {
    const rssBytes = process.memoryUsage.rss();
    // The timer's own pause is no delay.
    const late = (nanos: number): number => Math.max(0, nanos / nanosPerMs - resolutionMs);
    const { heapUsed, external } = process.memoryUsage();
    const figures = {
      pid: process.pid,
      p99Ms: late(delay.percentile(99)),
      maxMs: late(delay.max),
      workP99Ms: work.percentile(99) / microsPerMs,
      workMaxMs: work.max / microsPerMs,
      usedMib: (heapUsed + external) / mebibyte,
      rssMib: rssBytes / mebibyte,
      peakMib: Math.max(peakBytes, rssBytes) / mebibyte,
    };
    delay.reset();
    work.reset();
    peakBytes = 0;
    return figures;
  };
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  rmSync(socketPath, { force: true });
  createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", (asked) => {
      if (asked.toString() === "rest") collect();
      socket.end(`${JSON.stringify(take())}\n`);
    });
  })
    .listen(socketPath)
    .unref();
}

const { HOSTILE_SOCKET: path } = process.env;
if (path !== undefined && isMainThread) startMeasuring(path);
