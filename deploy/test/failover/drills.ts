import { backupDrills } from "./backup-drills.ts";
import { consumerDrills } from "./consumer-drills.ts";
import type { Drill } from "./drill.ts";
import { leaseDrills } from "./lease-drills.ts";
import { moveDrills } from "./move-drills.ts";
import { natsDrills } from "./nats-drills.ts";
import { postgresDrills } from "./postgres-drills.ts";
import { redisDrills } from "./redis-drills.ts";
import { restoreDrills } from "./restore-drills.ts";
import { zoneDrills } from "./zone-drills.ts";

/** All failovers that are tried, in order. */
export const drills: readonly Drill[] = [
  ...postgresDrills,
  ...redisDrills,
  ...moveDrills,
  ...leaseDrills,
  ...natsDrills,
  ...consumerDrills,
  ...zoneDrills,
  ...backupDrills,
  ...restoreDrills,
];
