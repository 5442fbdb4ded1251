import type { LoadReport } from "./load-plan.ts";
import type { Load } from "./loads.ts";

/** A figure that is read from a window. */
export type Figure = {
  name: string;
  read: (report: LoadReport, load: Load) => number;
  /** Only loads of these kinds have it; all when left out. */
  kinds?: Load["kind"][];
};

const perSecond = (count: number, report: LoadReport): number => count / (report.windowUs / 1_000_000);

/** All figures, in the order in which they are shown. */
const figures: Figure[] = [
  { name: "calls/s", read: (report) => perSecond(report.calls, report), kinds: ["json"] },
  { name: "chunks/s", read: (report) => perSecond(report.chunks, report), kinds: ["paced", "burst"] },
  { name: "call p50 ms", read: ({ callUs }) => callUs.p50 / 1_000, kinds: ["json"] },
  { name: "call p99 ms", read: ({ callUs }) => callUs.p99 / 1_000, kinds: ["json"] },
  { name: "chunk latency p50 ms", read: ({ chunkUs }) => chunkUs.p50 / 1_000, kinds: ["paced"] },
  { name: "chunk latency p99 ms", read: ({ chunkUs }) => chunkUs.p99 / 1_000, kinds: ["paced"] },
  { name: "CPU µs per call", read: ({ use, calls }) => use.cpuUs / calls, kinds: ["json"] },
  {
    name: "  + auth-quota, billing",
    read: ({ companionsCpuUs, calls }) => (companionsCpuUs === 0 ? Number.NaN : companionsCpuUs / calls),
    kinds: ["json"],
  },
  { name: "CPU µs per chunk", read: ({ use, chunks }) => use.cpuUs / chunks, kinds: ["paced", "burst"] },
  { name: "busy %", read: ({ use, windowUs }) => (100 * use.cpuUs) / windowUs },
  { name: "RSS MB", read: ({ use }) => use.residentMb },
];

/** The figures of a load. */
export function figuresOf(load: Load): Figure[] {
  return figures.filter(({ kinds }) => kinds?.includes(load.kind) ?? true);
}
