import type { LoadKind } from "./answers.ts";
import type { ProcessUse } from "./process-use.ts";

/** One window of load, as the loader process gets it. */
export type LoadPlan = {
  port: number;
  kind: LoadKind;
  /** Connections, each with one call at a time. */
  connections: number;
  /** Authorization header; the bare proxies ignore it. */
  secret: string;
  warmupMs: number;
  windowMs: number;
  /** The process whose use is read at both ends of the window. */
  pid: number;
  /** Other services that work for its calls; their CPU is read too. */
  companionPids: number[];
};

/** What the loader saw in the window. Times in microseconds; NaN travels as null. */
export type LoadReport = {
  calls: number;
  chunks: number;
  windowUs: number;
  callUs: { p50: number; p99: number };
  /** From the upstream's clock to the loader's, for paced streams. */
  chunkUs: { p50: number; p99: number };
  /** Use of the watched process in the window. */
  use: ProcessUse;
  companionsCpuUs: number;
  errors: number;
  /** The first few errors in words. */
  complaints: string[];
  /** Calls that ended whole before, in and after the window. */
  allCalls: Record<"whole" | "broken", number>;
};
