import { setTimeout as wait } from "node:timers/promises";

/** A connection to the inspector of a process (Chrome DevTools Protocol), of this one or of another. */
export type Inspector = { send: (method: string, params?: object) => Promise<Record<string, unknown>> };

/** Where a process spends its time, as the text of a .cpuprofile. Ends early, and rejects, when `gone` fires. */
export async function profileCpu({ send }: Inspector, seconds: number, gone?: AbortSignal): Promise<string> {
  await send("Profiler.enable");
  try {
    await send("Profiler.setSamplingInterval", { interval: 1_000 });
    await send("Profiler.start");
    await wait(seconds * 1_000, undefined, gone ? { signal: gone } : {});
    const { profile } = await send("Profiler.stop");
    return JSON.stringify(profile);
  } finally {
    await send("Profiler.disable");
  }
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

/** How late the event loop of a process is, what it waits for, and how much memory there is, as JSON. */
export async function watchLoop({ send }: Inspector, seconds: number): Promise<string> {
  const evaluated = await send("Runtime.evaluate", {
    expression: watching(seconds),
    awaitPromise: true,
    returnByValue: true,
  });
  const { value } = evaluated["result"] as { value?: unknown };
  if (value === undefined) throw new Error(JSON.stringify(evaluated["exceptionDetails"]));
  return `${JSON.stringify(value, null, 2)}\n`;
}
