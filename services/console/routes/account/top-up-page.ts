import { form, input, instant, table, usd } from "../../html/controls.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Parts } from "../../parts.ts";
import type { InAccount } from "../../html/route.ts";
import { listTopUps, type TopUp } from "../../store/top-ups.ts";

export const topUpTitle = "Top up";

/** Below it a card's fixed fee takes too much of the payment. */
export const leastNanos = 5_000_000_000n;
/** Above it a slip of the finger or a stolen card costs too much; more is paid to the operator, who books it. */
export const mostNanos = 10_000_000_000_000n;

const mostShown = 20;

/** The ways to pay, and what was paid lately. */
export async function topUpPage({ pool, billing, payments }: Parts, asked: InAccount): Promise<Markup> {
  const { accountId } = asked;
  const [{ balanceNanos }, topUps] = await Promise.all([
    billing.getBalance({ accountId }),
    listTopUps(pool, accountId, mostShown),
  ]);
  const path = `/accounts/${accountId}/top-up`;
  const rows = topUps.map((topUp) => topUpRow(path, topUp));
  return html`<p>The balance is ${usd(balanceNanos)}.</p>
    ${
      payments &&
      html`<h2>Pay by card or otherwise</h2>
        ${form(asked, { action: `${path}/checkout`, button: "Go on to pay" }, amountField(asked.form))}`
    }
    <h2>Redeem a voucher</h2>
    ${form(asked, { action: `${path}/voucher`, button: "Redeem" }, codeField(asked.form))}
    ${
      (payments !== undefined || rows.length > 0) &&
      html`<h2>Latest payments</h2>
        ${table("Payments of this account, newest first", ["Begun", "Amount", "State"], rows)}`
    }`;
}

const amountField = (given: Form): Markup =>
  input(given, {
    name: "amount",
    label: "Amount in USD",
    hint: "From 5.00 to 10,000.00, in whole cents. You pay on a page of the payment provider.",
    inputmode: "decimal",
    most: 21,
  });

/** What was typed is not sent back: a code is money. */
const codeField = ({ errors }: Form): Markup =>
  input(
    { ...createForm({}), errors },
    {
      name: "code",
      label: "Code of the voucher",
      hint: "Capitals, spaces and dashes do not matter.",
      most: 100,
    },
  );

const words: Record<TopUp["state"], string> = {
  begun: "not paid yet",
  paid: "paid",
  expired: "not paid",
  unbooked: "paid, not booked: ask your operator",
};

function topUpRow(path: string, { topUpId, createdAt, amountNanos, state }: TopUp): Markup {
  return html`<tr>
    <th scope="row"><a href="${path}/${topUpId}">${instant(createdAt)}</a></th>
    <td>${usd(amountNanos)}</td>
    <td>${words[state]}</td>
  </tr>`;
}
