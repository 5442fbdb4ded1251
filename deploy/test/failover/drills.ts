import type { Drill } from "./drill.ts";
import { postgresDrills } from "./postgres-drills.ts";
import { redisDrills } from "./redis-drills.ts";

/** All failovers that are tried, in order. */
export const drills: readonly Drill[] = [...postgresDrills, ...redisDrills];
