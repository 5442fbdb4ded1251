import type { Load } from "./loads.ts";
import type { Target } from "./targets.ts";

// A relay's CPU per call falls for some ten seconds of load until all of its code is compiled, that of a bare proxy for
// one; both get the same.
const firstOfKindMs = 7_000;
const firstOnPathMs = 1_500;

type WarmUpLoad = Pick<Load, "kind" | "bytes" | "client" | "upstream">;

/** How long a load is put on a target before it is measured there: 0 where it was already. */
export type Warmth = (load: WarmUpLoad, target: Pick<Target, "pid">) => number;

/** Knows what each process has been given: the first load of a kind takes longest, one on another path less. */
export function createWarmth(): Warmth {
  const known = new Set<string>();
  return ({ kind, bytes, client, upstream }, { pid }) => {
    const [kindKey, pathKey] = [`${pid} ${kind}`, [pid, kind, bytes, client, upstream].join(" ")];
    if (known.has(pathKey)) return 0;
    const neededMs = known.has(kindKey) ? firstOnPathMs : firstOfKindMs;
    known.add(kindKey).add(pathKey);
    return neededMs;
  };
}
