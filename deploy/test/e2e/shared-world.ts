import { after } from "node:test";
import { startWorld, type World, type WorldOptions } from "./world.ts";

const started = new Map<WorldOptions["catalog"], Promise<World>>();

/**
 * The system with this catalog that all test files in a process share, since to start one for each costs more than
 * most of them do: for tests that kill nothing and change nothing for others. It ends behind the last test.
 */
export function sharedWorld(catalog?: NonNullable<WorldOptions["catalog"]>): Promise<World> {
  const known = started.get(catalog);
  if (known) return known;
  // What a test counts must not fall out at the front, however many files came before it.
  const world = startWorld({ ...(catalog && { catalog }), fake: { receivedLimit: 100_000 } });
  started.set(catalog, world);
  after(async () => (await world)[Symbol.asyncDispose]());
  return world;
}
