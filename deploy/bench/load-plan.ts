import type { ProcessUse } from "./process-use.ts";
import type { CallPlan, Destination } from "./requests.ts";
import type { Quantiles } from "./samples.ts";

/** The line that the loader writes when all streams of a held load are open; SIGUSR2 lets them end. */
export const openMark = "open";

/** One window of load, as the loader process gets it. */
export type LoadPlan = {
  call: CallPlan;
  destination: Destination;
  /** Secrets that calls use in turn, in a file, one a line; without it that of the destination. */
  secretsFile?: string;
  /** What whole answers have, where it is known; the first answer tells it otherwise. */
  answerSize?: number;
  minSize: number;
  /** Whether a chunk's instant tells its latency; some dialects repeat the whole text at the end. */
  hasInstants: boolean;
  /** Connections, each with one call at a time. */
  connections: number;
  /** Calls begun in a second, whatever becomes of them; left out: each connection calls again at once. */
  callsPerSecond?: number;
  warmupMs: number;
  windowMs: number;
  /** For idle streams: how many are open when memory is read; whether they then wait; where they are ended. */
  openSteps?: number[];
  isHeld: boolean;
  upstreamPort: number;
  /** The process whose use is read at both ends of the window. */
  pid: number;
};

/** What the loader saw in the window. Times in microseconds; NaN travels as null. */
export type LoadReport = {
  calls: number;
  chunks: number;
  windowUs: number;
  callUs: Quantiles;
  /** From the beginning of a call to the first record of its stream. */
  firstUs: Quantiles;
  /** From the upstream's clock to the loader's, for paced streams. */
  chunkUs: Quantiles;
  /** Use of the watched process in the window. */
  use: ProcessUse;
  /** How long the measured core was busy in the window, with whatever. */
  coreBusyUs: number;
  /** Memory of the watched process by open streams. */
  open: { streams: number; residentMb: number }[];
  errors: number;
  /** The first few errors in words. */
  complaints: string[];
  /** Calls before, in and after the window: those that ended whole, and those that failed or did not end. */
  allCalls: Record<"whole" | "broken", number>;
};
