import { once } from "node:events";
import { Command, InvalidArgumentError } from "commander";
import { setTimeout as wait } from "node:timers/promises";
import { openInspector, type Inspector } from "./inspector.ts";

// The image's command `debug`: what a running service does, read in its own container by Node's inspector. It opens no
// port to the network, and needs the right to run commands in the pod (pods/exec), which is the operator's.

const write = async (text: string): Promise<void> => {
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
};

/** Where the process spends its time, as a .cpuprofile. */
async function profileCpu(inspector: Inspector, seconds: number): Promise<void> {
  await inspector.send("Profiler.enable");
  await inspector.send("Profiler.setSamplingInterval", { interval: 1_000 });
  await inspector.send("Profiler.start");
  await wait(seconds * 1_000);
  const { profile } = await inspector.send("Profiler.stop");
  await write(JSON.stringify(profile));
}

/** All that the process keeps in memory, as a .heapsnapshot. */
async function snapshotHeap(inspector: Inspector): Promise<void> {
  let written = Promise.resolve();
  inspector.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => {
    written = written.then(() => write(String(chunk)));
  });
  await inspector.send("HeapProfiler.enable");
  await inspector.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  await written;
}

const watching = (seconds: number): string => `(async () => {
  const { monitorEventLoopDelay, performance } = process.getBuiltinModule("node:perf_hooks");
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const before = performance.eventLoopUtilization();
  await new Promise((resolve) => setTimeout(resolve, ${seconds * 1_000}));
  const { utilization } = performance.eventLoopUtilization(before);
  delay.disable();
  const counts = {};
  for (const name of process.getActiveResourcesInfo()) counts[name] = (counts[name] ?? 0) + 1;
  const ms = (nanos) => Math.round(nanos / 1e4) / 100;
  return {
    utilization: Math.round(utilization * 1e3) / 1e3,
    delayMs: { p50: ms(delay.percentile(50)), p99: ms(delay.percentile(99)), max: ms(delay.max) },
    activeResources: counts,
    memoryBytes: process.memoryUsage(),
    uptimeSeconds: Math.round(process.uptime()),
  };
})()`;

/** How late the event loop is, what it waits for, and how much memory there is. */
async function watchLoop(inspector: Inspector, seconds: number): Promise<void> {
  const evaluated = await inspector.send("Runtime.evaluate", {
    expression: watching(seconds),
    awaitPromise: true,
    returnByValue: true,
  });
  const { value } = evaluated["result"] as { value?: unknown };
  if (value === undefined) throw new Error(JSON.stringify(evaluated["exceptionDetails"]));
  await write(`${JSON.stringify(value, null, 2)}\n`);
}

const integerWithin =
  (least: number, most: number) =>
  (text: string): number => {
    const number = Number(text);
    if (Number.isInteger(number) && number >= least && number <= most) return number;
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };

type Options = { pid: number; port: number; seconds: number };

const program = new Command("debug").description(
  "What a running service does, written to standard output; run it in the container of the service.",
);

function add(name: string, description: string, read: (inspector: Inspector, seconds: number) => Promise<void>): void {
  program
    .command(name)
    .description(description)
    .option("--seconds <n>", "how long to look", integerWithin(1, 60), 10)
    .option("--pid <pid>", "the process", integerWithin(1, 4_194_304), 1)
    .option("--port <port>", "where its inspector listens, on 127.0.0.1", integerWithin(1, 65_535), 9_229)
    .action(async ({ pid, port, seconds }: Options) => {
      await using inspector = await openInspector(pid, port);
      // The inspector is closed then, too.
      await Promise.race([read(inspector, seconds), once(process, "SIGINT"), once(process, "SIGTERM")]);
    });
}

add("cpu", "write a CPU profile (.cpuprofile)", profileCpu);
add("heap", "write a heap snapshot (.heapsnapshot): it holds prompts and keys, and stops the process", snapshotHeap);
add("loop", "show how late the event loop is, what it waits for, and its memory", watchLoop);

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
