import type Stripe from "stripe";
import { isUuid } from "../ids.ts";

export const nanosPerCent = 10_000_000n;

/** Under which billing books a payment once. */
export const paymentIdOf = (intent: string | { id: string } | null): string =>
  intent === null ? "" : `stripe:${typeof intent === "string" ? intent : intent.id}`;

/** Our own id, which whoever makes the payment has put there; empty when it is none. */
export function topUpIdIn(metadata: Stripe.Metadata | null | undefined): string {
  const topUpId = metadata?.["top_up_id"] ?? "";
  return isUuid(topUpId) ? topUpId : "";
}

/** The account that we have put there; empty when it is none. */
export const accountIdIn = (metadata: Stripe.Metadata | null | undefined): string => metadata?.["account_id"] ?? "";
