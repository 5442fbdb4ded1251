import { readFile, writeFile } from "node:fs/promises";
import { after } from "node:test";
import { share } from "#shared/testing/share.ts";
import { until } from "#shared/testing/until.ts";
import { type CatalogSections, catalogText } from "./catalog.ts";
import { startWorld, type World, type WorldOptions } from "./world.ts";

/**
 * The system with this catalog that all test files in a process share: for tests that kill nothing and change nothing
 * for others.
 */
export async function sharedWorld(catalog?: NonNullable<WorldOptions["catalog"]>): Promise<World> {
  // What a test counts must not fall out at the front, however many files came before it.
  const start = (): Promise<World> =>
    startWorld({
      ...(catalog && { catalog }),
      fake: { receivedLimit: 100_000 },
      serviceEnvironment: { relay: { DEBUG_CALLS: "on" } },
    });
  const world = await share(catalog ?? "world", start);
  after(() => world[Symbol.asyncDispose]());
  return world;
}

/**
 * The system of `testCatalog` that all test files in a process share that add to its catalog: upstreams and models
 * with names that no other file uses. Resolves when the relay knows them.
 */
export async function sharedWorldWith(more: (fakeUrl: string) => Partial<CatalogSections>): Promise<World> {
  const world = await sharedWorld();
  const { upstreams, models } = more(world.fake.url);
  const { catalogFile } = world.stack;
  const known = JSON.parse(await readFile(catalogFile, "utf8")) as CatalogSections;
  const all = { upstreams: { ...known.upstreams, ...upstreams }, models: { ...known.models, ...models } };
  await writeFile(catalogFile, catalogText(all));
  const { secret } = await world.createCustomer();
  await until("the relay knows the models", async () => {
    const answer = await fetch(`${world.relayUrl}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
    const { data } = (await answer.json()) as { data: { id: string }[] };
    const listed = data.map(({ id }) => id);
    return Object.keys(models ?? {}).every((name) => listed.includes(name));
  });
  return world;
}
