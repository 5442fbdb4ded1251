import Stripe from "stripe";
import type { Clock } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { cardCalls, chargeOf } from "./stripe-cards.ts";
import { accountIdIn, nanosPerCent, paymentIdOf, topUpIdIn } from "./stripe-ids.ts";
import { BadSignature, type Notice, type Payment, type PaymentProvider } from "./provider.ts";
import type { Reversal } from "../store/reversals.ts";

export type StripeSettings = {
  secretKey: string;
  /** While one is replaced by another, both count. */
  webhookSecrets: readonly string[];
  apiUrl: URL;
  clock: Clock;
};

const timeoutMs = 8_000;
const retries = 1;
// As Stripe advises against replays: https://docs.stripe.com/webhooks#replay-attacks
const toleranceSeconds = 300;
// Without a customer the card would not be kept: https://docs.stripe.com/payments/checkout/save-during-payment
const cardsOfNewCustomer = {
  customer_creation: "always",
  allowed_payment_method_types: ["card"],
} satisfies Partial<Stripe.Checkout.SessionCreateParams>;
const hostedCheckout = "https://checkout.stripe.com";

/** Stripe Checkout in payment mode: https://docs.stripe.com/payments/checkout */
export function createStripe({ secretKey, webhookSecrets, apiUrl, clock }: StripeSettings): PaymentProvider {
  const protocol = apiUrl.protocol === "http:" ? "http" : "https";
  const stripe = new Stripe(secretKey, {
    host: apiUrl.hostname,
    port: apiUrl.port || (protocol === "http" ? 80 : 443),
    protocol,
    timeout: timeoutMs,
    maxNetworkRetries: retries,
    telemetry: false,
  });
  const isStandIn = apiUrl.hostname !== "api.stripe.com";
  return {
    name: "stripe",
    pageOrigins: isStandIn ? [hostedCheckout, apiUrl.origin] : [hostedCheckout],
    beginCheckout: async ({ topUpId, accountId, amountNanos, successUrl, cancelUrl, savesCard }) => {
      const about = { top_up_id: topUpId, account_id: accountId };
      const name = `Top-up of account ${accountId}`;
      const price = { currency: "usd", unit_amount: Number(amountNanos / nanosPerCent), product_data: { name } };
      const request = {
        mode: "payment" as const,
        client_reference_id: topUpId,
        metadata: about,
        payment_intent_data: {
          metadata: about,
          description: name,
          ...(savesCard && { setup_future_usage: "off_session" as const }),
        },
        ...(savesCard && cardsOfNewCustomer),
        line_items: [{ quantity: 1, price_data: price }],
        // What is paid must be what is booked: Stripe would otherwise offer the payer's own currency.
        adaptive_pricing: { enabled: false },
        success_url: successUrl,
        cancel_url: cancelUrl,
      } satisfies Stripe.Checkout.SessionCreateParams;
      const session = await calling(() => stripe.checkout.sessions.create(request, { idempotencyKey: topUpId }));
      if (!session.url) throw new ServiceError("unavailable", "no payment page was made");
      return { url: session.url, reference: session.id };
    },
    ...cardCalls(stripe, calling),
    lookUp: async (reference) =>
      reference.startsWith("pi_")
        ? chargeOf(await calling(() => stripe.paymentIntents.retrieve(reference)))
        : paymentOf(await calling(() => stripe.checkout.sessions.retrieve(reference))),
    listNotices: async (fromMs, untilMs) => {
      const created = { gte: Math.ceil(fromMs / 1_000), lt: Math.ceil(untilMs / 1_000) };
      const request = { types: [...noticeTypes], created, limit: 100 };
      const events = await calling(() => stripe.events.list(request).autoPagingToArray({ limit: maxEvents }));
      if (events.length === maxEvents) throw new ServiceError("unavailable", "the provider has told too much at once");
      // The newest come first: https://docs.stripe.com/api/events/list
      return events.toReversed().flatMap((event) => noticeOf(event) ?? []);
    },
    readWebhook: (body, signature) => noticeOf(readEvent(stripe, webhookSecrets, { body, signature, clock })),
  };
}

async function calling<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new ServiceError("unavailable", "the payment provider cannot be asked now", withoutContent(error));
  }
}

/** For the log: Stripe's errors hold heads, parameters and pieces of the key. */
function withoutContent(error: unknown): Error {
  if (!(error instanceof Stripe.errors.StripeError)) return new Error("a call of Stripe failed");
  const { type, code, statusCode, requestId, param } = error;
  const detail = error.detail instanceof Error && "code" in error.detail ? error.detail.code : undefined;
  const facts = { type, code, statusCode, requestId, param, detail };
  const words = Object.entries(facts).filter(([, value]) => value !== undefined);
  return new Error(`Stripe: ${words.map(([name, value]) => `${name} ${String(value)}`).join(", ")}`);
}

type SignedMessage = { body: Buffer; signature: string; clock: Clock };

/** Checks the signature as https://docs.stripe.com/webhooks/signature says; the error's own text holds the body. */
function readEvent(
  stripe: Stripe,
  secrets: readonly string[],
  { body, signature, clock }: SignedMessage,
): Stripe.Event {
  for (const secret of secrets) {
    try {
      const { webhooks } = stripe;
      return webhooks.constructEvent(body, signature, secret, toleranceSeconds, undefined, clock.nowMs());
    } catch {
      // The next secret may be the right one.
    }
  }
  throw new BadSignature();
}

// Those of noticeOf(); Stripe lists at most 20 types at a time.
const noticeTypes = [
  "checkout.session.completed",
  "checkout.session.async_payment_succeeded",
  "checkout.session.async_payment_failed",
  "checkout.session.expired",
  "payment_intent.succeeded",
  "payment_intent.canceled",
  "charge.refunded",
  "refund.failed",
  "refund.updated",
  "charge.refund.updated",
  "charge.dispute.created",
  "charge.dispute.closed",
  "charge.dispute.funds_withdrawn",
  "charge.dispute.funds_reinstated",
];
const maxEvents = 10_000;

function noticeOf(event: Stripe.Event): Notice | undefined {
  switch (event.type) {
    case "checkout.session.completed":
    case "checkout.session.async_payment_succeeded":
    case "checkout.session.expired":
      return ofPayment(paymentOf(event.data.object));
    case "checkout.session.async_payment_failed": {
      const payment = paymentOf(event.data.object);
      return payment && ofPayment({ ...payment, outcome: "expired" });
    }
    case "payment_intent.succeeded":
    case "payment_intent.canceled":
      return ofPayment(chargeOf(event.data.object));
    default:
      return reversalIn(event);
  }
}

function reversalIn(event: Stripe.Event): Notice | undefined {
  switch (event.type) {
    case "charge.refunded": {
      const charge = event.data.object;
      return ofReversal(event, "refunded", { ...charge, amount: charge.amount_refunded });
    }
    case "refund.failed":
      return ofReversal(event, "refund-failed", event.data.object);
    case "refund.updated":
    case "charge.refund.updated": {
      const { status } = event.data.object;
      const isOver = status === "failed" || status === "canceled";
      return isOver ? ofReversal(event, "refund-failed", event.data.object) : undefined;
    }
    case "charge.dispute.created":
    case "charge.dispute.closed": {
      const { status } = event.data.object;
      // A question of the bank takes no money; one that becomes a dispute is told by the withdrawal.
      const isOurs = status === "won" || status.startsWith("warning_");
      return ofReversal(event, isOurs ? "dispute-ended" : "disputed", event.data.object);
    }
    case "charge.dispute.funds_withdrawn":
      return ofReversal(event, "disputed", event.data.object);
    case "charge.dispute.funds_reinstated":
      return ofReversal(event, "dispute-ended", event.data.object);
    default:
      return undefined;
  }
}

type Reversed = {
  id: string;
  amount: number;
  payment_intent?: string | { id: string } | null;
  /** A charge has that of its payment intent. */
  metadata?: Stripe.Metadata | null;
};

function ofReversal(event: Stripe.Event, what: Reversal["what"], reversed: Reversed): Notice {
  const { id: objectId, amount, payment_intent: intent, metadata } = reversed;
  const amountNanos = BigInt(amount) * nanosPerCent;
  const reversal = { eventId: event.id, what, objectId, amountNanos, createdS: event.created };
  return { kind: "reversal", paymentId: paymentIdOf(intent ?? null), topUpId: topUpIdIn(metadata), reversal };
}

const ofPayment = (payment: Payment | undefined): Notice | undefined => payment && { kind: "payment", payment };

/** Undefined for a session that is none of ours: whoever pays by a payment link can choose its reference, not this. */
function paymentOf(session: Stripe.Checkout.Session): Payment | undefined {
  const topUpId = topUpIdIn(session.metadata);
  if (topUpId === "" || session.client_reference_id !== topUpId) return undefined;
  const isPaid = session.payment_status === "paid";
  return {
    topUpId,
    accountId: accountIdIn(session.metadata),
    reference: session.id,
    outcome: isPaid ? "paid" : session.status === "expired" ? "expired" : "open",
    paymentId: isPaid ? paymentIdOf(session.payment_intent) : "",
    amountNanos: BigInt(session.amount_total ?? 0) * nanosPerCent,
    currency: (session.currency ?? "").toLowerCase(),
  };
}
