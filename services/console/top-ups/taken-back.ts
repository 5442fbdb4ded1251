import type { Reversal } from "../store/reversals.ts";

// Of two messages of one second the later step counts.
const steps: Record<Reversal["what"], number> = {
  refunded: 0,
  "refund-failed": 1,
  disputed: 0,
  "dispute-ended": 1,
};

function isLater(one: Reversal, other: Reversal): boolean {
  if (one.createdS !== other.createdS) return one.createdS > other.createdS;
  if (steps[one.what] !== steps[other.what]) return steps[one.what] > steps[other.what];
  // What was refunded in all grows with each refund.
  return one.amountNanos > other.amountNanos;
}

/** The last message of each object, by the provider's clock. */
function latest(reversals: Iterable<Reversal>): Map<string, Reversal> {
  const found = new Map<string, Reversal>();
  for (const reversal of reversals) {
    const known = found.get(reversal.objectId);
    if (!known || isLater(reversal, known)) found.set(reversal.objectId, reversal);
  }
  return found;
}

const sum = (reversals: Iterable<Reversal>): bigint => {
  let nanos = 0n;
  for (const { amountNanos } of reversals) nanos += amountNanos;
  return nanos;
};

/**
 * How much of a payment has gone back to whoever paid it, by all that the provider has said: in whatever order, and
 * however often. Never more than was paid.
 *
 * A charge says with each refund what was refunded of it in all, and no longer counts refunds that failed before; those
 * that fail later are taken off. A dispute takes its amount until it ends in our favour.
 */
export function takenBack(reversals: readonly Reversal[], paidNanos: bigint): bigint {
  const ofKind = (...kinds: Reversal["what"][]): Reversal[] => reversals.filter(({ what }) => kinds.includes(what));
  const charges = [...latest(ofKind("refunded")).values()];
  const refundedAtS = Math.max(0, ...charges.map(({ createdS }) => createdS));
  const failed = [...latest(ofKind("refund-failed")).values()].filter(({ createdS }) => createdS >= refundedAtS);
  const disputes = [...latest(ofKind("disputed", "dispute-ended")).values()];
  const refunded = sum(charges) - sum(failed);
  const taken = (refunded > 0n ? refunded : 0n) + sum(disputes.filter(({ what }) => what === "disputed"));
  return taken < paidNanos ? taken : paidNanos;
}
