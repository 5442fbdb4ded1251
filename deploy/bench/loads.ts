import { fileURLToPath } from "node:url";
import { startProcess } from "#shared/testing/child-process.ts";
import type { LoadPlan, LoadReport } from "./load-plan.ts";
import type { Target } from "./targets.ts";

/** A load that every target gets in every round. */
export type Load = Pick<LoadPlan, "kind" | "connections" | "warmupMs" | "windowMs"> & {
  name: string;
  /** The unit of work whose CPU is told. */
  unit: "call" | "chunk";
};

/** The loads of one round, about eleven seconds for each target. */
export const loads: Load[] = [
  { name: "JSON, 64 connections", kind: "json", connections: 64, unit: "call", warmupMs: 500, windowMs: 2_500 },
  { name: "JSON, 1 connection", kind: "json", connections: 1, unit: "call", warmupMs: 200, windowMs: 1_300 },
  {
    name: "SSE, 100 streams, 10 ms gaps",
    kind: "paced",
    connections: 100,
    unit: "chunk",
    warmupMs: 500,
    windowMs: 2_500,
  },
  {
    name: "SSE, 64 streams back to back",
    kind: "burst",
    connections: 64,
    unit: "chunk",
    warmupMs: 500,
    windowMs: 2_000,
  },
];

/**
 * Puts a load on a target and returns what the loader saw. Throws when the loader fails; errors of calls are counted.
 */
export async function runLoad(load: Load, target: Target): Promise<LoadReport> {
  const { kind, connections, warmupMs, windowMs } = load;
  const { port, secret, pid, companionPids } = target;
  const plan: LoadPlan = { kind, connections, warmupMs, windowMs, port, secret, pid, companionPids };
  let report = "";
  const loader = await startProcess({
    command: process.execPath,
    args: [fileURLToPath(import.meta.resolve("./loader.ts")), JSON.stringify(plan)],
    orphanSignal: "SIGTERM",
    onLine: (line) => (report = line),
  });
  const outcome = await loader.ended;
  if (!report.startsWith('{"calls":')) throw new Error(`loader ${outcome}:\n${loader.lastLines().join("\n")}`);
  return JSON.parse(report, (_, value: unknown) => value ?? Number.NaN) as LoadReport;
}
