import { commonLoads, gapsLoad, type Load } from "./loads.ts";
import { runRounds } from "./rounds.ts";
import type { World } from "./world.ts";

// Names of their own: these windows are apart from those of the same loads in another section.
const floorLoads: Load[] = commonLoads
  .filter(({ name }) => name === "1 KB, 64 connections" || name === gapsLoad)
  .map((load) => ({ ...load, name: `floor, ${load.name}` }));

/** What charging alone costs: a bare proxy, the least one that charges, and the relay. */
export async function measureFloor(world: World, rounds: number): Promise<void> {
  const { relay, targets } = world;
  if (!relay) return;
  await using metered = await world.startFresh("metered");
  const bare = targets.filter(({ name }) => name === "bare");
  const turns = floorLoads.flatMap((load) => [...bare, metered, relay].map((target) => ({ load, target })));
  await runRounds(world, "floor", turns, { rounds });
  await relay.ledger.waitUntilBooked();
}
