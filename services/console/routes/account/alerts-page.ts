import { formatUsd } from "#shared/money/money.ts";
import { eventWords } from "../../alerts/events.ts";
import type { Deps } from "../../deps.ts";
import { ago, badge, button, choice, form, input, instant, table, type Tone } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import type { AccountRequest } from "../../html/route.ts";
import { may } from "../../permissions.ts";
import { findAlertRule, type AlertRule } from "../../store/alerts.ts";
import { listDeliveries, listWebhooks, type Delivery, type Webhook } from "../../store/deliveries.ts";

export const alertsTitle = "Alerts";
const shownDeliveries = 50;

export const alertsPath = ({ accountId }: AccountRequest): string => `/accounts/${accountId}/alerts`;

export async function alertsPage(deps: Deps, request: AccountRequest): Promise<Markup> {
  const { pool, mailer } = deps;
  const { accountId, roles } = request;
  const rule = await findAlertRule(pool, accountId);
  const webhooks = await listWebhooks(pool, accountId);
  const deliveries = await listDeliveries(pool, accountId, shownDeliveries);
  const mayManage = may(roles, "alerts.manage");
  return html`${
      mayManage
        ? ruleForm(request, rule, mailer !== undefined)
        : html`<p>The owners of this account choose what it is told of.</p>`
    }
    <h2>Webhooks</h2>
    ${webhookTable(request, webhooks, mayManage)} ${mayManage && webhookForm(request)}
    <h2>Messages</h2>
    ${table(
      "Messages of the last 30 days, newest first",
      ["When", "Event", "To", "State", "Attempts"],
      deliveries.map(deliveryRow),
    )}`;
}

function ruleForm(request: AccountRequest, rule: AlertRule | undefined, hasMailer: boolean): Markup {
  const { lowBalanceNanos = null, limitPercent = null, isMailed = true } = rule ?? {};
  return html`<p>
      You are told once when the balance falls below an amount, and again only after it was above it. The same goes for
      what keys have spent of their limits, and the account of its
      <a href="/accounts/${request.accountId}/budget">budget</a>.
    </p>
    ${form(
      request,
      { action: alertsPath(request), button: "Save" },
      html`${input(request.form, {
        name: "low-balance",
        label: "Balance below, in USD",
        hint: "Such as 20. Empty: you are not told.",
        value: lowBalanceNanos === null ? "" : formatUsd(lowBalanceNanos).replace(/\.?0+$/, ""),
        inputmode: "decimal",
        maxLength: 21,
        isOptional: true,
      })}
      ${input(request.form, {
        name: "limit-percent",
        label: "Spent of a key's limit, or of the budget, in percent",
        hint: "Such as 80; of the day, week or month where a limit is for one. Empty: you are not told.",
        value: limitPercent === null ? "" : String(limitPercent),
        inputmode: "numeric",
        maxLength: 3,
        isOptional: true,
      })}
      ${choice(request.form, {
        name: "by-mail",
        label: "By e-mail to the owners",
        ...(!hasMailer && { hint: "No mail server is set up here: only webhooks are told." }),
        value: isMailed ? "yes" : "no",
        choices: [
          ["yes", "yes"],
          ["no", "no"],
        ],
      })}`,
    )}`;
}

const webhookForm = (request: AccountRequest): Markup =>
  form(
    request,
    { action: `${alertsPath(request)}/webhooks`, button: "Add webhook" },
    input(request.form, {
      name: "url",
      label: "Address",
      hint: "Every event is sent there as JSON by POST, signed. HTTPS on its own port.",
      maxLength: 500,
    }),
  );

function webhookTable(request: AccountRequest, webhooks: readonly Webhook[], mayManage: boolean): Markup {
  const rows = webhooks.map(({ webhookId, url, createdAt }) => {
    const path = `${alertsPath(request)}/webhooks/${webhookId}`;
    const actions = html`<td>
      ${button(request, { action: `${path}/test`, button: "Send test" }, `to ${url}`)}
      ${button(request, { action: `${path}/secret`, button: "New secret" }, `for ${url}`)}
      ${button(request, { action: `${path}/delete`, button: "Delete", isDanger: true }, url)}
    </td>`;
    return html`<tr>
      <th scope="row">${url}</th>
      <td>${instant(createdAt)}</td>
      ${mayManage && actions}
    </tr>`;
  });
  return table("Where events are sent", ["Address", "Since", ...(mayManage ? ["Actions"] : [])], rows);
}

const states: Record<Delivery["state"], [string, Tone]> = {
  due: ["on its way", "warning"],
  delivered: ["delivered", "success"],
  failed: ["given up", "danger"],
};

function deliveryRow({ createdAt, eventType, recipient, state, result, attempts, dueAt }: Delivery): Markup {
  const [words, tone] = states[state];
  return html`<tr>
    <th scope="row">${ago(createdAt)}</th>
    <td>${eventWords[eventType] ?? eventType}</td>
    <td>${recipient}</td>
    <td>${badge(words, tone)}${result !== "" && html`<small>${result}</small>`}</td>
    <td class="amount">
      ${attempts}${state === "due" && attempts > 0 && html`<small>next at ${instant(dueAt)}</small>`}
    </td>
  </tr>`;
}
