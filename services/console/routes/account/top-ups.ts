import { ServiceError } from "#shared/process/errors.ts";
import { inTransaction } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { usd } from "../../html/amounts.ts";
import { readUsd, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { settlePendingTopUp } from "../../top-ups/settle.ts";
import type { PaymentProvider } from "../../payments/provider.ts";
import { Problem } from "../../html/problem.ts";
import {
  accountRoute,
  again,
  get,
  page,
  post,
  redirect,
  type PageResponse,
  type AccountRequest,
  type Route,
} from "../../html/route.ts";
import { findTopUp, insertTopUp, markExpired, setReference, type TopUp } from "../../store/top-ups.ts";
import { may } from "../../permissions.ts";
import { recordAudit, auditAround, actorOf } from "../../audit-log.ts";
import { hashVoucherCode } from "../../sign-in/voucher-codes.ts";
import { minNanos, maxNanos, topUpPage, topUpTitle } from "./top-up-page.ts";

/** Money that account owners put in themselves. */
export function topUpRoutes(deps: Deps): Route[] {
  const action = "top-ups.make";
  return [
    accountRoute(get("/top-up"), action, async (request) => page(topUpTitle, await topUpPage(deps, request))),
    accountRoute({ ...post("/top-up/voucher"), isGuessable: true }, action, (request) => redeem(deps, request)),
    accountRoute(post("/top-up/checkout"), action, (request) => checkout(deps, request)),
    accountRoute(get("/top-up/:topUpId"), action, (request) => comeBack(deps, request)),
  ];
}

const topUpPath = ({ accountId }: AccountRequest): string => `/accounts/${accountId}/top-up`;

async function refused(deps: Deps, request: AccountRequest, field: string, sentence: string): Promise<PageResponse> {
  request.form.refuse(field, sentence);
  return again(topUpTitle, await topUpPage(deps, request));
}

// A void code is answered as one that never was: why it is void is between the operator and whoever was given it.
const notValid = "This code is not valid. Compare it letter by letter, or ask whoever gave it to you.";

async function redeem(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const codeHash = hashVoucherCode(request.form.exact("code").slice(0, 200));
  if (!codeHash) return refused(deps, request, "code", notValid);
  try {
    const event = { action: "voucher.redeem", accountId, target: "voucher" } as const;
    const { line, balanceNanos } = await auditAround(deps, actorOf(request), event, async () => {
      const result = await deps.billing.redeemVoucher({ accountId, codeHash });
      const { lineId = "", amountNanos = 0n, reference = "" } = result.line ?? {};
      const money = { amountNanos: `${amountNanos}`, balanceNanos: `${result.balanceNanos}` };
      return { result, target: lineId, after: { lineId, voucher: reference, ...money } };
    });
    const amount = usd(line?.amountNanos ?? 0n);
    // True for a code that this account has redeemed before, too.
    return redirect(topUpPath(request), `The voucher of ${amount} is booked. The balance is ${usd(balanceNanos)}.`);
  } catch (error) {
    const sentence = sentenceOf(error);
    if (sentence === undefined) throw error;
    return refused(deps, request, "code", sentence);
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

export function providerOf({ payments }: Deps): PaymentProvider {
  if (!payments) throw new Problem("not-found");
  return payments;
}

function readAmount(form: Form): bigint | undefined {
  const nanos = readUsd(form, "amount", { min: minNanos, max: maxNanos });
  if (nanos === undefined || nanos % 10_000_000n === 0n) return nanos;
  return form.refuse("amount", "Give whole cents.");
}

async function checkout(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const payments = providerOf(deps);
  const { accountId } = request;
  const amountNanos = readAmount(request.form);
  if (amountNanos === undefined) return again(topUpTitle, await topUpPage(deps, request));
  // Whoever may not charge a card later cannot have one kept either.
  const savesCard = request.form.typed("save-card") === "yes" && may(request.roles, "auto-top-ups.manage");
  const topUpId = await begin(deps, request, { payments, amountNanos, savesCard });
  if (topUpId === undefined) {
    const sentence = "Too many payments were begun in the last hour and not paid. Try again in an hour.";
    return refused(deps, request, "amount", sentence);
  }
  const path = topUpPath(request);
  const [successUrl, cancelUrl] = [`${path}/${topUpId}`, path].map((to) => new URL(to, deps.publicUrl).href);
  const urls = { successUrl: successUrl ?? "", cancelUrl: cancelUrl ?? "" };
  const order = { topUpId, accountId, amountNanos, savesCard, ...urls };
  const url = await makeCheckout(deps, payments, order);
  if (payments.pageOrigins.includes(new URL(url).origin)) return redirect(url);
  // Stripe's page can have a domain of one's own, to which the policy does not let a form lead.
  const body = html`<p><a class="button" href="${url}">Continue to the payment page</a></p>`;
  return page("On to the payment page", body, { goesOnTo: new URL(url) });
}

type CheckoutStart = { payments: PaymentProvider; amountNanos: bigint; savesCard: boolean };

/** The row comes first: nobody can pay what we do not know of. */
function begin({ pool, metrics }: Deps, request: AccountRequest, start: CheckoutStart) {
  const { payments, amountNanos, savesCard } = start;
  const { accountId, visitor } = request;
  const { personId } = visitor.person;
  return inTransaction(pool, async (db) => {
    const provider = payments.name;
    const topUpId = await insertTopUp(db, { accountId, personId, provider, amountNanos, savesCard });
    if (topUpId === undefined) return undefined;
    const after = { provider, amountNanos: `${amountNanos}`, ...(savesCard && { savesCard }) };
    await recordAudit(db, actorOf(request), { action: "top-up.begin", accountId, target: topUpId, after });
    metrics.topUps.inc({ provider, outcome: "begun" });
    return topUpId;
  });
}

type Order = Parameters<PaymentProvider["beginCheckout"]>[0];

async function makeCheckout({ pool }: Deps, payments: PaymentProvider, order: Order): Promise<string> {
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
async function comeBack(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const before = await ownTopUp(deps, request);
  const { payments, log } = deps;
  if (payments && payments.name === before.provider && before.state !== "paid" && !before.isAutomatic) {
    try {
      await settlePendingTopUp({ ...deps, payments }, before, actorOf(request));
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      log.warn({ err: error, topUpId: before.topUpId }, "failed to check a payment, will retry");
    }
  }
  const topUp = await ownTopUp(deps, request);
  const { balanceNanos } = await deps.billing.getBalance({ accountId: request.accountId });
  return page(
    "Your payment",
    html`${outcomeOf(topUp)}
      <p>The balance is ${usd(balanceNanos)}.</p>
      <p><a href="${topUpPath(request)}">Back to topping up</a></p>`,
  );
}

async function ownTopUp({ pool }: Deps, { accountId, parameters }: AccountRequest): Promise<TopUp> {
  const topUpId = parameters["topUpId"] ?? "";
  const topUp = isUuid(topUpId) ? await findTopUp(pool, topUpId) : undefined;
  if (topUp?.accountId !== accountId) throw new Problem("not-found");
  return topUp;
}

function outcomeOf({ state, amountNanos, topUpId, problem }: TopUp): Markup {
  const amount = usd(amountNanos);
  if (state === "paid") return html`<p class="notice">Thank you: ${amount} was added to the account.</p>`;
  if (problem !== "") return html`<p>Nothing was paid, and nothing was added to the account: ${problem}.</p>`;
  if (state === "expired") return html`<p>Nothing was paid, and nothing was added to the account.</p>`;
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
