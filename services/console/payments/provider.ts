import type { SavedCard } from "../store/auto-top-ups.ts";
import type { Reversal } from "../store/reversals.ts";

/** What somebody wants to pay. */
export type Order = {
  topUpId: string;
  accountId: string;
  amountNanos: bigint;
  /** Where the person goes after paying, or instead of it. */
  successUrl: string;
  cancelUrl: string;
  /** Whether the card may be charged later without the person. */
  savesCard: boolean;
};

/** A charge of a saved card, without anybody there. */
export type CardCharge = { topUpId: string; accountId: string; amountNanos: bigint; customer: string; method: string };

/** Nothing was charged, and asking again would not help; why is for people. */
export type Declined = { declined: string };

/** A page of the provider on which an order is paid, and the provider's id of it. */
export type Checkout = { url: string; reference: string };

/** How it stands with an order, as the provider tells it. */
export type Payment = {
  topUpId: string;
  /** Whose it was when it was begun, as it was told to the provider. */
  accountId: string;
  reference: string;
  /** open: nothing is decided; expired: nothing will come of it. */
  outcome: "open" | "paid" | "expired";
  /** Under which billing books it once; empty unless it is paid. */
  paymentId: string;
  amountNanos: bigint;
  /** In lower case, such as usd. */
  currency: string;
};

/** What a provider says unasked: how an order stands, or that a payment goes back. */
export type Notice =
  | { kind: "payment"; payment: Payment }
  /** `topUpId` is empty when the provider does not tell it. */
  | { kind: "reversal"; paymentId: string; topUpId: string; reversal: Reversal };

/** Thrown for a message that the provider has not signed, or not just now. */
export class BadSignature extends Error {
  constructor() {
    super("the signature is not the provider's, or too old");
    this.name = "BadSignature";
  }
}

/** Somebody who takes money for us. Calls reject with a ServiceError that is `unavailable`, whatever went wrong. */
export type PaymentProvider = {
  name: string;
  /** Origins of its pages, to which a form may lead. */
  pageOrigins: readonly string[];
  /** The same order gets the same checkout, however often it is asked for. */
  beginCheckout: (order: Order) => Promise<Checkout>;
  /** The card that a checkout was paid with, if it may be charged later. */
  readCard: (reference: string) => Promise<SavedCard | undefined>;
  /** Charges once, however often it is asked for within a day. */
  chargeCard: (charge: CardCharge) => Promise<Payment | Declined>;
  forgetCard: (card: SavedCard) => Promise<void>;
  /** How it stands with a checkout or a charge; undefined when it is none of ours. */
  lookUp: (reference: string) => Promise<Payment | undefined>;
  /** Reads what came to the webhook; undefined when it is of no interest. Throws BadSignature. */
  readWebhook: (body: Buffer, signature: string) => Notice | undefined;
  /** What it has told between two times in milliseconds since 1970, in that order; it keeps that for a month or so. */
  listNotices: (fromMs: number, untilMs: number) => Promise<Notice[]>;
};
