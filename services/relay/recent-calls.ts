/** Calls of a model that came to an end which is its own: whole, or failed at its upstreams or here. */
export type RecentCalls = { served: number; failed: number };

const sliceMs = 300_000;
const slicesOfHour = 12;

const kindOf = new Map<string, keyof RecentCalls>([
  ["ok", "served"],
  ["upstream_error", "failed"],
  ["gateway_error", "failed"],
]);

/** Counts the calls of each model of the catalog in this process, in the last 55 to 60 minutes. */
export function createRecentCalls(nowMs: () => number = () => performance.now()) {
  /** The newest first. */
  let slices: Map<string, RecentCalls>[] = [new Map()];
  let beganMs = nowMs();
  const turn = (): void => {
    const passed = Math.floor((nowMs() - beganMs) / sliceMs);
    if (passed < 1) return;
    beganMs += passed * sliceMs;
    const fresh = Array.from({ length: Math.min(passed, slicesOfHour) }, () => new Map<string, RecentCalls>());
    slices = [...fresh, ...slices].slice(0, slicesOfHour);
  };
  return {
    count: (model: string, outcome: string): void => {
      const kind = kindOf.get(outcome);
      if (kind === undefined) return;
      turn();
      const [newest] = slices;
      const calls = newest?.get(model);
      if (calls) calls[kind] += 1;
      else newest?.set(model, { served: 0, failed: 0, [kind]: 1 });
    },
    of: (model: string): RecentCalls => {
      turn();
      const found = slices.flatMap((slice) => slice.get(model) ?? []);
      return {
        served: found.reduce((sum, { served }) => sum + served, 0),
        failed: found.reduce((sum, { failed }) => sum + failed, 0),
      };
    },
  };
}
