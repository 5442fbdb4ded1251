import { inTransaction } from "#shared/stores/postgres.ts";
import { actorOf, recordAudit } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { exactMoney, money } from "../../html/amounts.ts";
import { badge, button, choice, emptyState, figure, form, input, table } from "../../html/controls.ts";
import { readUsd, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { accountRoute, again, get, page, post, redirect } from "../../html/route.ts";
import type { AccountRequest, PageResponse, Route } from "../../html/route.ts";
import type { AuditValues } from "../../store/audit.ts";
import {
  chargedThisMonth,
  deleteCard,
  findAutoTopUp,
  findSavedCard,
  lockAutoTopUp,
  setAutoTopUp,
  switchOff,
  type AutoTopUp,
  type SavedCard,
} from "../../store/auto-top-ups.ts";
import { listCharges } from "../../store/top-ups.ts";
import { maxNanos, minNanos, topUpRow } from "./top-up-page.ts";
import { providerOf } from "./top-ups.ts";

const title = "Automatic top-up";
const maxShown = 50;
const action = "auto-top-ups.manage";

/** Charges of a saved card when the balance is low. */
export function autoTopUpRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/top-up/automatic"), action, async (request) => page(title, await autoPage(deps, request))),
    accountRoute(post("/top-up/automatic"), action, (request) => change(deps, request)),
    accountRoute(post("/top-up/automatic/card"), action, (request) => removeCard(deps, request)),
  ];
}

const topUpPath = ({ accountId }: AccountRequest): string => `/accounts/${accountId}/top-up`;
const autoPath = (request: AccountRequest): string => `${topUpPath(request)}/automatic`;

async function autoPage(deps: Deps, request: AccountRequest): Promise<Markup> {
  providerOf(deps);
  const { pool } = deps;
  const { accountId } = request;
  const [rule, card, chargedNanos, charges] = await Promise.all([
    findAutoTopUp(pool, accountId),
    findSavedCard(pool, accountId),
    chargedThisMonth(pool, accountId),
    listCharges(pool, accountId, maxShown),
  ]);
  const rows = charges.map((charge) => topUpRow(topUpPath(request), charge));
  const caption = "Charges of the saved card, newest first";
  return html`${card ? html`${stateOf(rule, card, chargedNanos)} ${forms(request, rule)}` : noCard(request)}
  ${table(caption, ["Begun", "Amount", "By", "State"], rows)}`;
}

const noCard = (request: AccountRequest): Markup =>
  emptyState(
    "No saved card",
    "Pay once and choose to save the card. It can then be charged when the balance is low.",
    html`<a class="button" href="${topUpPath(request)}">Add credits</a>`,
  );

function stateOf(rule: AutoTopUp | undefined, { label }: SavedCard, chargedNanos: bigint): Markup {
  const why = rule?.offReason && html`<p class="problems">Switched off: ${rule.offReason}.</p>`;
  const cap = rule && html`of ${exactMoney(rule.monthlyCapNanos)}`;
  return html`${why}
    <section class="card">
      <dl class="figures-row">
        ${figure("State", rule?.isOn ? badge("on", "success") : badge("off", "secondary"))} ${figure("Card", label)}
        ${figure("Charged this month", html`${money(chargedNanos)} ${cap}`)}
      </dl>
    </section>`;
}

function forms(request: AccountRequest, rule: AutoTopUp | undefined): Markup {
  const amount = (name: string, label: string, hint: string, nanos: bigint | undefined): Markup =>
    input(request.form, {
      name,
      label,
      hint,
      value: nanos === undefined ? "" : (Number(nanos / 10_000_000n) / 100).toFixed(2),
      inputmode: "decimal",
      maxLength: 21,
    });
  const fields = html`${choice(request.form, {
    name: "state",
    label: "Charge the card when the balance is low",
    value: rule?.isOn ? "on" : "off",
    choices: [
      ["on", "Yes"],
      ["off", "No"],
    ],
  })}
  ${amount("threshold", "When the balance is below, in USD", "Such as 10.00.", rule?.thresholdNanos)}
  ${amount("amount", "Amount in USD", "Charged each time: 5.00 to 10,000.00, in whole cents.", rule?.amountNanos)}
  ${amount(
    "cap",
    "At most in a month, in USD",
    "In a calendar month (UTC). A charge that would exceed it is not made.",
    rule?.monthlyCapNanos,
  )}`;
  return html`${form(request, { action: autoPath(request), button: "Save" }, fields)}
  ${button(request, { action: `${autoPath(request)}/card`, button: "Remove the card", isDanger: true })}`;
}

function readCents(given: Form, name: string, range: { min: bigint; max?: bigint }): bigint | undefined {
  const nanos = readUsd(given, name, range);
  if (nanos === undefined || nanos % 10_000_000n === 0n) return nanos;
  return given.refuse(name, "Give whole cents.");
}

function readRule({ accountId, form: given, visitor }: AccountRequest): AutoTopUp | undefined {
  const thresholdNanos = readCents(given, "threshold", { min: 10_000_000n });
  const amountNanos = readCents(given, "amount", { min: minNanos, max: maxNanos });
  const monthlyCapNanos = readCents(given, "cap", { min: minNanos });
  const state = given.typed("state");
  if (state !== "on" && state !== "off") given.refuse("state", "Choose one of these.");
  if (thresholdNanos === undefined || amountNanos === undefined || monthlyCapNanos === undefined) return undefined;
  if (monthlyCapNanos < amountNanos) given.refuse("cap", "Allow for one charge at least.");
  if (given.errors.size > 0) return undefined;
  const amounts = { thresholdNanos, amountNanos, monthlyCapNanos };
  return { accountId, isOn: state === "on", ...amounts, offReason: "", setBy: visitor.person.personId };
}

const auditRule = (rule: AutoTopUp): AuditValues => ({
  isOn: rule.isOn,
  thresholdNanos: `${rule.thresholdNanos}`,
  amountNanos: `${rule.amountNanos}`,
  monthlyCapNanos: `${rule.monthlyCapNanos}`,
});

async function change(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  providerOf(deps);
  const { accountId } = request;
  const rule = readRule(request);
  if (!rule) return again(title, await autoPage(deps, request));
  const isSet = await inTransaction(deps.pool, async (db) => {
    const before = await lockAutoTopUp(db, accountId);
    if (!(await findSavedCard(db, accountId))) return false;
    await setAutoTopUp(db, rule);
    const values = { ...(before && { before: auditRule(before) }), after: auditRule(rule) };
    await recordAudit(db, actorOf(request), { action: "auto-top-up.change", accountId, target: accountId, ...values });
    return true;
  });
  return redirect(autoPath(request), isSet ? "Saved." : "Save a card first.");
}

async function removeCard(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const payments = providerOf(deps);
  const { accountId } = request;
  const card = await inTransaction(deps.pool, async (db) => {
    // Whoever is about to charge it has it written down by now, or finds no card.
    await lockAutoTopUp(db, accountId);
    const found = await findSavedCard(db, accountId);
    if (!found) return undefined;
    await deleteCard(db, accountId);
    await switchOff(db, accountId, "");
    const event = { action: "card.remove", accountId, target: found.method, before: { label: found.label } } as const;
    await recordAudit(db, actorOf(request), event);
    return found;
  });
  // Should that fail, the provider keeps a card that nobody here knows any more.
  if (card) await payments.forgetCard(card);
  return redirect(autoPath(request), "The card is removed.");
}
