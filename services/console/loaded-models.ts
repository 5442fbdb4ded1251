import type { Model } from "#proto/relay/v1/relay_pb.ts";
import type { Usage } from "#proto/usage/v1/usage_pb.ts";
import type { Relays } from "./relays.ts";
import { bucketNames, bucketsInUse } from "./html/units.ts";

/** A price row as account owners may see it: nano-USD per 1,000,000 units, by the name of the bucket in words. */
export type PriceRow = { condition: string; prices: { bucket: string; nanos: bigint }[] };

/** A model as account owners may see it: nothing of upstreams, routes and what they cost. */
export type LoadedModel = {
  name: string;
  endpoints: string[];
  prices: PriceRow[];
  /** The most tokens of a call and of its answer; 0: not known. */
  contextTokens: bigint;
  maxOutputTokens: bigint;
  /** Its calls of the last hour, of all accounts and relays: served, and failed at its providers or here. */
  served: bigint;
  failed: bigint;
};

/** What the relays have loaded; `isChanging` while they do not all have the same catalog. */
export type LoadedModels = { models: LoadedModel[]; isChanging: boolean };

/** The models of the first relay that answers; undefined when none does. */
export async function readLoadedModels({
  recentStates,
}: Pick<Relays, "recentStates">): Promise<LoadedModels | undefined> {
  const catalogs = (await recentStates()).map(({ state }) => state?.catalog).filter((one) => one !== undefined);
  const [first] = catalogs;
  if (!first) return undefined;
  const recent = Map.groupBy(
    catalogs.flatMap((catalog) => catalog.models),
    ({ name }) => name,
  );
  const models = first.models.map(({ name, endpoints, prices, contextTokens, maxOutputTokens }) => ({
    ...sumRecent(recent.get(name) ?? []),
    name,
    endpoints,
    contextTokens,
    maxOutputTokens,
    prices: prices.map(({ condition, unitPriceNanos }) => ({ condition, prices: pricesOf(unitPriceNanos) })),
  }));
  return { models, isChanging: catalogs.some(({ contentHash }) => contentHash !== first.contentHash) };
}

const sumRecent = (ofRelays: readonly Model[]): Pick<LoadedModel, "served" | "failed"> => ({
  served: ofRelays.reduce((sum, { recentServed }) => sum + recentServed, 0n),
  failed: ofRelays.reduce((sum, { recentFailed }) => sum + recentFailed, 0n),
});

/** The buckets that cost something. */
const pricesOf = (prices: Usage | undefined): PriceRow["prices"] =>
  bucketsInUse([prices]).map((bucket) => ({ bucket: bucketNames[bucket], nanos: prices?.[bucket] ?? 0n }));
