import Stripe from "stripe";
import type { Payment, PaymentProvider } from "./provider.ts";
import { accountIdIn, nanosPerCent, paymentIdOf, topUpIdIn } from "./stripe-ids.ts";

type Calling = <T>(work: () => Promise<T>) => Promise<T>;

/** Charges without the person there: https://docs.stripe.com/payments/save-and-reuse#charge-saved-payment-method */
export function cardCalls(
  stripe: Stripe,
  calling: Calling,
): Pick<PaymentProvider, "readCard" | "chargeCard" | "forgetCard"> {
  return {
    readCard: async (reference) => {
      const expand = ["payment_intent.payment_method"];
      const session = await calling(() => stripe.checkout.sessions.retrieve(reference, { expand }));
      const intent = session.payment_intent;
      const method = typeof intent === "object" ? intent?.payment_method : undefined;
      const { customer } = session;
      if (typeof method !== "object" || !method?.card || customer === null) return undefined;
      const { brand, last4 } = method.card;
      const customerId = typeof customer === "string" ? customer : customer.id;
      return { customer: customerId, method: method.id, label: `${brand} ending in ${last4}` };
    },
    chargeCard: async ({ topUpId, accountId, amountNanos, customer, method }) => {
      const request = {
        amount: Number(amountNanos / nanosPerCent),
        currency: "usd",
        customer,
        payment_method: method,
        // Nobody is there whom a page of the bank could be shown.
        automatic_payment_methods: { enabled: true, allow_redirects: "never" },
        off_session: true,
        confirm: true,
        description: `Automatic top-up of account ${accountId}`,
        metadata: { top_up_id: topUpId, account_id: accountId, ...automatic },
      } satisfies Stripe.PaymentIntentCreateParams;
      return calling(async () => {
        try {
          const intent = await stripe.paymentIntents.create(request, { idempotencyKey: topUpId });
          return chargeOf(intent) ?? { declined: "the payment provider has made another payment of it" };
        } catch (error) {
          const declined = declineIn(error);
          if (declined === undefined) throw error;
          return { declined };
        }
      });
    },
    forgetCard: async ({ method }) => {
      await calling(async () => {
        try {
          await stripe.paymentMethods.detach(method);
        } catch (error) {
          // It is gone already.
          if (!(error instanceof Stripe.errors.StripeInvalidRequestError)) throw error;
        }
      });
    },
  };
}

const automatic = { automatic: "yes" };

/** Why a card is not charged, for people; undefined when it may be, or may have been. */
function declineIn(error: unknown): string | undefined {
  if (error instanceof Stripe.errors.StripeCardError) {
    // By https://docs.stripe.com/declines/codes some reasons must not be told to whoever pays, so none is.
    if (error.code === "authentication_required") return "the bank wants to ask the card's owner";
    return error.code === "expired_card" ? "the card has expired" : "the card was declined";
  }
  const isImpossible = error instanceof Stripe.errors.StripeInvalidRequestError;
  return isImpossible ? "the saved card cannot be charged any more" : undefined;
}

/** Undefined for an intent that is no automatic charge of ours. */
export function chargeOf(intent: Stripe.PaymentIntent): Payment | undefined {
  const topUpId = topUpIdIn(intent.metadata);
  if (topUpId === "" || intent.metadata["automatic"] !== automatic.automatic) return undefined;
  const isPaid = intent.status === "succeeded";
  return {
    topUpId,
    accountId: accountIdIn(intent.metadata),
    reference: intent.id,
    outcome: isPaid ? "paid" : intent.status === "canceled" ? "expired" : "open",
    paymentId: isPaid ? paymentIdOf(intent.id) : "",
    amountNanos: BigInt(intent.amount_received) * nanosPerCent,
    currency: intent.currency.toLowerCase(),
  };
}
