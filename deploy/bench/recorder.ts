import { figuresOf } from "./figures.ts";
import type { LoadReport } from "./load-plan.ts";
import { runLoad, type Load } from "./loads.ts";
import type { Measured } from "./measured.ts";
import type { Target, TargetName } from "./targets.ts";
import { createWarmth } from "./warm-up.ts";

/** Runs loads and keeps what was seen of them. */
export type Recorder = {
  /** Puts a load on a target and keeps its figures; round 0 is a warm-up, of which only errors and calls are kept. */
  run: (round: number, load: Load, target: Target) => Promise<LoadReport>;
  /** Puts a load on a target until its code is compiled, where it has not run there before. */
  warm: (load: Load, target: Target) => Promise<void>;
  add: (measured: Measured[]) => void;
  measured: Measured[];
  /** What went wrong, in words; empty when every call was answered as it should be. */
  complaints: string[];
  /** Calls through what charges: what the ledger must have charged in full, and what it may have charged a part of. */
  chargedCalls: Record<"whole" | "broken", number>;
};

const charging = new Set<TargetName>(["relay", "leased", "metered"]);

/** Windows are `pace` times as long as their loads say. */
export function createRecorder(upstreamPort: number, pace: number): Recorder {
  const measured: Measured[] = [];
  const complaints: string[] = [];
  const chargedCalls = { whole: 0, broken: 0 };
  const warmth = createWarmth();
  const run: Recorder["run"] = async (round, load, target) => {
    const report = await runLoad({ ...load, windowMs: load.windowMs * pace }, target, upstreamPort);
    if (charging.has(target.name)) {
      chargedCalls.whole += report.allCalls.whole;
      chargedCalls.broken += report.allCalls.broken;
    }
    if (round > 0) measured.push(...figuresOf(round, load, target.name, report));
    const { errors, allCalls, complaints: told } = report;
    if (errors > 0) {
      const calls = `${errors} of ${errors + allCalls.whole} calls`;
      complaints.push(`${target.name}, ${load.name}, round ${round}: ${calls} — ${told[0]}`);
    }
    return report;
  };
  return {
    measured,
    complaints,
    chargedCalls,
    add: (more) => void measured.push(...more),
    run,
    warm: async (load, target) => {
      const windowMs = warmth(load, target);
      if (windowMs > 0) await run(0, { ...load, warmupMs: 0, windowMs }, target);
    },
  };
}
