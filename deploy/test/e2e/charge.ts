import assert from "node:assert/strict";
import { type EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { type Units, usageBuckets } from "#shared/money/pricing.ts";
import { estimateTokens } from "../../../services/relay/dialects/dialect.ts";
import { readJsonBody } from "../../../services/relay/dialects/json/request-body.ts";
import { prices } from "./catalog.ts";
import type { BookedLine, Customer, World } from "./world.ts";

/**
 * What units cost at the test catalog's prices, or at others, in nano-USD, rounded up once. Worked out here and not by
 * the services' own formula, which would agree with itself.
 */
export function costOf(units: Units, at: Units = prices): bigint {
  let cost = 0n;
  for (const [bucket, price] of Object.entries(at)) cost += (units[bucket as keyof Units] ?? 0n) * price;
  return cost / 1_000_000n + (cost % 1_000_000n > 0n ? 1n : 0n);
}

/** What a call is charged by the published table "What a broken answer costs". */
export type Charge =
  /** Refused, or failed before any content. */
  | "nothing"
  /** The provider's counts, which it has told in full. */
  | { provider: Units }
  /** Units counted from the request and the answer, because the provider told none. */
  | { counted: Units }
  /** The provider's count of the input, and the output that was sent. */
  | { providerInput: Units; sentText: string }
  /** Input and output counted from what was sent. */
  | { sentBody: string; sentText: string };

/** More than any test sends. */
const mostTokens = 1e9;

/** The input of a body of which the provider tells no count. */
export const estimatedInput = (body: string): bigint =>
  BigInt(Math.ceil(readJsonBody(Buffer.from(body)).textTokens(mostTokens)));

/** The units of a charge and where they come from. */
function meteredOf(charge: Charge): { units: Units; source: UsageSource } {
  if (charge === "nothing") return { units: {}, source: UsageSource.NONE };
  if ("provider" in charge) return { units: charge.provider, source: UsageSource.PROVIDER };
  if ("counted" in charge) return { units: charge.counted, source: UsageSource.ESTIMATED };
  const outputTokens = BigInt(Math.ceil(estimateTokens(charge.sentText)));
  if ("providerInput" in charge) {
    return { units: { ...charge.providerInput, outputTokens }, source: UsageSource.PROVIDER_INPUT };
  }
  const inputTokens = estimatedInput(charge.sentBody);
  const units = outputTokens > 0n ? { inputTokens, outputTokens } : { inputTokens };
  return { units, source: UsageSource.ESTIMATED };
}

/** The buckets of a booked call that are not 0. */
export function unitsOf({ usage }: BookedLine): Units {
  const counted = usage.usage;
  return Object.fromEntries(
    usageBuckets.flatMap((bucket) => (counted && counted[bucket] > 0n ? [[bucket, counted[bucket]]] : [])),
  );
}

export type Outcome = {
  rid: string;
  endCause: EndCause;
  charge: Charge;
  /** Left out: those of the test catalog. */
  prices?: Units;
};

/**
 * Waits until a customer's only call is booked and checks its one ledger line against the published table: the units,
 * where they come from, the amount, the cause; then that the balance moved by exactly it and nothing is held.
 */
export async function checkCharge(world: World, { accountId }: Customer, outcome: Outcome): Promise<BookedLine> {
  const line = await world.untilBooked(accountId, outcome.rid);
  const { units, source } = meteredOf(outcome.charge);
  const { endCause, usageSource } = line.usage;
  assert.deepEqual(
    { units: unitsOf(line), endCause, usageSource },
    { units, endCause: outcome.endCause, usageSource: source },
  );
  const cost = costOf(units, outcome.prices);
  assert.equal(line.amountNanos, -cost);
  const { balanceNanos, availableNanos, openHolds, unpostedCalls } = await world.moneyOf(accountId);
  const { creditedNanos } = await world.billing.getBalance({ accountId });
  assert.equal(balanceNanos, creditedNanos - cost);
  assert.deepEqual([availableNanos, openHolds, unpostedCalls], [balanceNanos, 0n, 0n]);
  assert.equal((await world.ledgerOf(accountId)).length, 1, "exactly one ledger line");
  return line;
}
