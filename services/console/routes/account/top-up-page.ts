import { usd } from "../../html/amounts.ts";
import { choice, form, input, instant, table } from "../../html/controls.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { may } from "../../permissions.ts";
import type { Deps } from "../../deps.ts";
import type { AccountRequest } from "../../html/route.ts";
import { listTopUps, type TopUp } from "../../store/top-ups.ts";

export const topUpTitle = "Add credits";

/** Below it a card's fixed fee takes too much of the payment. */
export const minNanos = 5_000_000_000n;
/** Above it a slip of the finger or a stolen card costs too much; more is paid to the operator, who books it. */
export const maxNanos = 10_000_000_000_000n;

const maxShown = 20;

/** The ways to pay, and what was paid lately. */
export async function topUpPage({ pool, billing, payments }: Deps, request: AccountRequest): Promise<Markup> {
  const { accountId } = request;
  const [{ balanceNanos }, topUps] = await Promise.all([
    billing.getBalance({ accountId }),
    listTopUps(pool, accountId, maxShown),
  ]);
  const path = `/accounts/${accountId}/top-up`;
  const rows = topUps.map((topUp) => topUpRow(path, topUp));
  return html`<p>The balance is ${usd(balanceNanos)}.</p>
    ${
      payments &&
      html`<h2>Pay by card or otherwise</h2>
        ${form(request, { action: `${path}/checkout`, button: "Continue to payment" }, checkoutFields(request))}
        ${
          may(request.roles, "auto-top-ups.manage") &&
          html`<p><a href="${path}/automatic">Top up automatically when the balance is low</a></p>`
        }`
    }
    <h2>Redeem a voucher</h2>
    ${payments === undefined && html`<p>No cards are taken here: your operator sells vouchers or books payments.</p>`}
    ${form(request, { action: `${path}/voucher`, button: "Redeem" }, codeField(request.form))}
    ${
      (payments !== undefined || rows.length > 0) &&
      html`<h2>Latest payments</h2>
        ${table("Payments of this account, newest first", ["Begun", "Amount", "By", "State"], rows)}`
    }`;
}

const checkoutFields = ({ form: given, roles }: AccountRequest): Markup =>
  html`${amountField(given)}
  ${
    may(roles, "auto-top-ups.manage") &&
    choice(given, {
      name: "save-card",
      label: "The card that you pay with",
      hint: "A saved card is charged only when you switch automatic top-ups on.",
      choices: [
        ["", "Use it once"],
        ["yes", "Save it for automatic top-ups"],
      ],
    })
  }`;

const amountField = (given: Form): Markup =>
  input(given, {
    name: "amount",
    label: "Amount in USD",
    hint: "From 5.00 to 10,000.00, in whole cents. You pay on a page of the payment provider.",
    inputmode: "decimal",
    maxLength: 21,
  });

/** What was typed is not sent back: a code is money. */
const codeField = ({ errors }: Form): Markup =>
  input(
    { ...createForm({}), errors },
    {
      name: "code",
      label: "Voucher code",
      hint: "Case, spaces and dashes are ignored.",
      maxLength: 100,
    },
  );

const words: Record<TopUp["state"], string> = {
  begun: "not paid yet",
  paid: "paid",
  expired: "not paid",
  unbooked: "paid, not booked: ask your operator",
};

export function topUpRow(path: string, topUp: TopUp): Markup {
  const { topUpId, createdAt, amountNanos, state, isAutomatic, problem } = topUp;
  return html`<tr>
    <th scope="row"><a href="${path}/${topUpId}">${instant(createdAt)}</a></th>
    <td>${usd(amountNanos)}</td>
    <td>${isAutomatic ? "automatic" : "a person"}</td>
    <td>${problem === "" ? words[state] : `${words[state]}: ${problem}`}</td>
  </tr>`;
}
