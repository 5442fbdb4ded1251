import type { Catalog } from "#proto/relay/v1/relay_pb.ts";
import { usageBuckets } from "#shared/money/pricing.ts";

/** The prices of a model in a version of them, as text that differs where prices do. */
export type PriceText = { model: string; priceVersion: string; prices: string };

/**
 * The price rows of a catalog that a relay has checked. Units that cost nothing are left out, so that the text stays
 * the same when there are more kinds of units.
 */
export function priceTextsOf({ models }: Pick<Catalog, "models">): PriceText[] {
  return models.flatMap(({ name, prices }) =>
    prices.map(({ version, unitPriceNanos }) => {
      const priced = usageBuckets.map((bucket) => [bucket, unitPriceNanos?.[bucket] ?? 0n] as const);
      const named = priced.filter(([, nanos]) => nanos !== 0n).map(([bucket, nanos]) => `${bucket}=${nanos}`);
      return { model: name, priceVersion: version, prices: named.toSorted().join() };
    }),
  );
}

/** What is known of the version in force, and of the one that was applied last. */
type InForce = Pick<Catalog, "isStored" | "appliedVersion" | "problem">;

/**
 * The version that a change of what is in force is made from: the newest one, if it is in force or a relay has refused
 * it. Undefined: relays have not looked at it yet, and a change would undo what nobody has seen.
 */
export function baseVersionOf({ appliedVersion, problem }: Omit<InForce, "isStored">, newest: bigint) {
  return appliedVersion === newest || problem.startsWith(`version ${newest}:`) ? newest : undefined;
}
