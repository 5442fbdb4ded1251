import type { LoadReport } from "./load-plan.ts";
import type { Load } from "./loads.ts";
import type { Measured } from "./measured.ts";
import { spreadOf, type Spread } from "./statistics.ts";
import type { TargetName } from "./targets.ts";

/** A figure that is read from a window. */
type Figure = {
  name: string;
  read: (report: LoadReport) => number;
  /** Only loads of these kinds have it; all when left out. */
  kinds?: Load["kind"][];
};

export const cpuPerCall = "CPU µs per call";
export const cpuPerChunk = "CPU µs per chunk";

/** How much of the measured core went to something else: a quiet machine has next to nothing. */
const othersOnCore = "others on its core %";

const perSecond = (count: number, { windowUs }: LoadReport): number => count / (windowUs / 1_000_000);
const streams: Load["kind"][] = ["paced", "burst"];

/** All figures, in the order in which they are shown. */
const figures: Figure[] = [
  { name: "calls/s", read: (report) => perSecond(report.calls, report), kinds: ["json"] },
  { name: "chunks/s", read: (report) => perSecond(report.chunks, report), kinds: streams },
  { name: "call p50 ms", read: ({ callUs }) => callUs.p50 / 1_000, kinds: ["json"] },
  { name: "call p99 ms", read: ({ callUs }) => callUs.p99 / 1_000, kinds: ["json"] },
  { name: "chunk latency p50 ms", read: ({ chunkUs }) => chunkUs.p50 / 1_000, kinds: ["paced"] },
  { name: "chunk latency p99 ms", read: ({ chunkUs }) => chunkUs.p99 / 1_000, kinds: ["paced"] },
  { name: cpuPerCall, read: ({ use, calls }) => use.cpuUs / calls, kinds: ["json"] },
  { name: cpuPerChunk, read: ({ use, chunks }) => use.cpuUs / chunks, kinds: streams },
  { name: "busy %", read: ({ use, windowUs }) => (100 * use.cpuUs) / windowUs },
  {
    name: othersOnCore,
    read: ({ use, coreBusyUs, windowUs }) => (100 * Math.max(0, coreBusyUs - use.cpuUs)) / windowUs,
  },
  { name: "RSS MB", read: ({ use }) => use.residentMb },
];

/** What a window says of its target. */
export function figuresOf(round: number, load: Load, target: TargetName, report: LoadReport): Measured[] {
  return figures
    .filter(({ kinds }) => kinds?.includes(load.kind) ?? true)
    .map(({ name, read }) => ({ round, load: load.name, figure: name, target, value: read(report) }));
}

/** How much of the measured core went to something else, over all windows. */
export function othersOf(measured: readonly Measured[]): Spread {
  return spreadOf(measured.filter(({ figure }) => figure === othersOnCore).map(({ value }) => value));
}
