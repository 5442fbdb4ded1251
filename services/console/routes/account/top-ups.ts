import { ServiceError } from "#shared/process/errors.ts";
import { inTransaction } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { usd } from "../../html/controls.ts";
import { readUsd, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Parts } from "../../parts.ts";
import { lookAt } from "../../top-ups/settle.ts";
import type { PaymentProvider } from "../../payments/provider.ts";
import { Problem } from "../../html/problem.ts";
import {
  accountRoute,
  again,
  get,
  page,
  post,
  redirect,
  type Answer,
  type InAccount,
  type Route,
} from "../../html/route.ts";
import { findTopUp, insertTopUp, markExpired, setReference, type TopUp } from "../../store/top-ups.ts";
import { note, noteAround, whoOf } from "../../trail.ts";
import { hashVoucherCode } from "../../sign-in/voucher-codes.ts";
import { leastNanos, mostNanos, topUpPage, topUpTitle } from "./top-up-page.ts";

/** Money that account owners put in themselves. */
export function topUpRoutes(parts: Parts): Route[] {
  const action = "top-ups.make";
  return [
    accountRoute(get("/top-up"), action, async (asked) => page(topUpTitle, await topUpPage(parts, asked))),
    accountRoute({ ...post("/top-up/voucher"), isGuessable: true }, action, (asked) => redeem(parts, asked)),
    accountRoute(post("/top-up/checkout"), action, (asked) => checkout(parts, asked)),
    accountRoute(get("/top-up/:topUpId"), action, (asked) => comeBack(parts, asked)),
  ];
}

const topUpPath = ({ accountId }: InAccount): string => `/accounts/${accountId}/top-up`;

async function refused(parts: Parts, asked: InAccount, field: string, sentence: string): Promise<Answer> {
  asked.form.refuse(field, sentence);
  return again(topUpTitle, await topUpPage(parts, asked));
}

// A void code is answered as one that never was: why it is void is between the operator and whoever was given it.
const notValid = "This code is not valid. Compare it letter by letter, or ask whoever gave it to you.";

async function redeem(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId } = asked;
  const codeHash = hashVoucherCode(asked.form.exact("code").slice(0, 200));
  if (!codeHash) return refused(parts, asked, "code", notValid);
  try {
    const deed = { action: "voucher.redeem", accountId, target: "voucher" } as const;
    const { line, balanceNanos } = await noteAround(parts, whoOf(asked), deed, async () => {
      const result = await parts.billing.redeemVoucher({ accountId, codeHash });
      const { lineId = "", amountNanos = 0n, reference = "" } = result.line ?? {};
      const money = { amountNanos: `${amountNanos}`, balanceNanos: `${result.balanceNanos}` };
      return { result, target: lineId, after: { lineId, voucher: reference, ...money } };
    });
    const amount = usd(line?.amountNanos ?? 0n);
    // True for a code that this account has redeemed before, too.
    return redirect(topUpPath(asked), `The voucher of ${amount} is booked. The balance is ${usd(balanceNanos)}.`);
  } catch (error) {
    const sentence = sentenceOf(error);
    if (sentence === undefined) throw error;
    return refused(parts, asked, "code", sentence);
  }
}

/** What billing's refusal means to whoever typed the code. */
function sentenceOf(error: unknown): string | undefined {
  if (!(error instanceof ServiceError)) return undefined;
  if (error.code === "not_found") return notValid;
  if (error.code !== "failed_precondition") return undefined;
  if (/expired/.test(error.message)) return "This voucher has expired: its last day is over.";
  if (/range/.test(error.message)) return "The account cannot hold that much more. Use up some of its balance first.";
  return "This voucher has been redeemed already, by another account.";
}

function providerOf({ payments }: Parts): PaymentProvider {
  if (!payments) throw new Problem("not-found");
  return payments;
}

function readAmount(form: Form): bigint | undefined {
  const nanos = readUsd(form, "amount", { least: leastNanos, most: mostNanos });
  if (nanos === undefined || nanos % 10_000_000n === 0n) return nanos;
  return form.refuse("amount", "Give whole cents.");
}

async function checkout(parts: Parts, asked: InAccount): Promise<Answer> {
  const payments = providerOf(parts);
  const { accountId } = asked;
  const amountNanos = readAmount(asked.form);
  if (amountNanos === undefined) return again(topUpTitle, await topUpPage(parts, asked));
  const topUpId = await begin(parts, asked, { payments, amountNanos });
  if (topUpId === undefined) {
    const sentence = "Too many payments were begun in the last hour and not paid. Try again in an hour.";
    return refused(parts, asked, "amount", sentence);
  }
  const path = topUpPath(asked);
  const [successUrl, cancelUrl] = [`${path}/${topUpId}`, path].map((to) => new URL(to, parts.publicUrl).href);
  const order = { topUpId, accountId, amountNanos, successUrl: successUrl ?? "", cancelUrl: cancelUrl ?? "" };
  const url = await makeCheckout(parts, payments, order);
  if (payments.pageOrigins.includes(new URL(url).origin)) return redirect(url);
  // Stripe's page can have a domain of one's own, to which the policy does not let a form lead.
  const body = html`<p><a class="button" href="${url}">Go on to the payment page</a></p>`;
  return page("On to the payment page", body, { goesOnTo: new URL(url) });
}

type Begin = { payments: PaymentProvider; amountNanos: bigint };

/** The row comes first: nobody can pay what we do not know of. */
function begin({ pool, metrics }: Parts, asked: InAccount, { payments, amountNanos }: Begin) {
  const { accountId, visitor } = asked;
  const { personId } = visitor.person;
  return inTransaction(pool, async (db) => {
    const provider = payments.name;
    const topUpId = await insertTopUp(db, { accountId, personId, provider, amountNanos });
    if (topUpId === undefined) return undefined;
    const after = { provider, amountNanos: `${amountNanos}` };
    await note(db, whoOf(asked), { action: "top-up.begin", accountId, target: topUpId, after });
    metrics.topUps.inc({ provider, outcome: "begun" });
    return topUpId;
  });
}

type Order = Parameters<PaymentProvider["beginCheckout"]>[0];

async function makeCheckout({ pool }: Parts, payments: PaymentProvider, order: Order): Promise<string> {
  const { topUpId } = order;
  try {
    const { url, reference } = await payments.beginCheckout(order);
    await setReference(pool, topUpId, reference);
    return url;
  } catch (error) {
    // Nobody was shown where to pay. Should money come all the same, it is booked: an expired row still can be.
    await markExpired(pool, topUpId);
    throw error;
  }
}

/** Whoever comes back from paying is not made to wait for the provider's message, which may come late or never. */
async function comeBack(parts: Parts, asked: InAccount): Promise<Answer> {
  const before = await ownTopUp(parts, asked);
  const { payments, log } = parts;
  if (payments && payments.name === before.provider && before.state !== "paid") {
    try {
      await lookAt({ ...parts, payments }, before, whoOf(asked));
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      log.warn({ err: error, topUpId: before.topUpId }, "a payment could not be looked at; it will be later");
    }
  }
  const topUp = await ownTopUp(parts, asked);
  const { balanceNanos } = await parts.billing.getBalance({ accountId: asked.accountId });
  return page(
    "Your payment",
    html`${outcomeOf(topUp)}
      <p>The balance is ${usd(balanceNanos)}.</p>
      <p><a href="${topUpPath(asked)}">Back to topping up</a></p>`,
  );
}

async function ownTopUp({ pool }: Parts, { accountId, parameters }: InAccount): Promise<TopUp> {
  const topUpId = parameters["topUpId"] ?? "";
  const topUp = isUuid(topUpId) ? await findTopUp(pool, topUpId) : undefined;
  if (topUp?.accountId !== accountId) throw new Problem("not-found");
  return topUp;
}

function outcomeOf({ state, amountNanos, topUpId }: TopUp): Markup {
  const amount = usd(amountNanos);
  if (state === "paid") return html`<p class="notice">Thank you: ${amount} were put into the account.</p>`;
  if (state === "expired") return html`<p>Nothing was paid. The ${amount} were not put into the account.</p>`;
  if (state === "unbooked") {
    return html`<p class="problems">
      Your payment came in, but it could not be put into the account. Tell your operator this id: ${topUpId}.
    </p>`;
  }
  return html`<p>
    The payment of ${amount} is not through yet. Some ways to pay take days. It is put into the account as soon as it is
    through, whether or not this page is open.
  </p>`;
}
