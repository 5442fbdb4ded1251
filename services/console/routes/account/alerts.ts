import { randomBytes, randomUUID } from "node:crypto";
import { FetchRefusedError, checkUrl } from "#shared/net/guarded-agent.ts";
import { inTransaction } from "#shared/stores/postgres.ts";
import { sealedFor } from "../../alerts/deliver.ts";
import { testEvent } from "../../alerts/events.ts";
import { secretText } from "../../alerts/webhook.ts";
import { actorOf, recordAudit } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { copyButton } from "../../html/copy-button.ts";
import { readNumber, readUsd, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { Problem } from "../../html/problem.ts";
import { accountRoute, again, get, page, post, redirect } from "../../html/route.ts";
import type { AccountRequest, PageResponse, Route } from "../../html/route.ts";
import { isUuid } from "../../ids.ts";
import { findAlertRule, setAlertRule, type AlertRule } from "../../store/alerts.ts";
import {
  deleteWebhook,
  insertDeliveries,
  insertWebhook,
  listWebhooks,
  mayTest,
  rotateSecret,
  type Webhook,
} from "../../store/deliveries.ts";
import type { AuditValues } from "../../store/audit.ts";
import { alertsPage, alertsPath, alertsTitle } from "./alerts-page.ts";

const maxWebhooks = 5;
const maxTestsPerMinute = 10;
const maxUrlLength = 500;

/** What an account is told of, and where. */
export function alertRoutes(deps: Deps): Route[] {
  const manage = (url: string, handle: (deps: Deps, request: AccountRequest) => Promise<PageResponse>): Route =>
    accountRoute(post(url), "alerts.manage", (request) => handle(deps, request));
  return [
    accountRoute(get("/alerts"), "alerts.view", async (request) => page(alertsTitle, await alertsPage(deps, request))),
    manage("/alerts", change),
    manage("/alerts/webhooks", addWebhook),
    manage("/alerts/webhooks/:webhookId/test", sendTest),
    manage("/alerts/webhooks/:webhookId/secret", newSecret),
    manage("/alerts/webhooks/:webhookId/delete", removeWebhook),
  ];
}

const auditRule = ({ lowBalanceNanos, limitPercent, isMailed }: AlertRule): AuditValues => ({
  lowBalanceNanos: lowBalanceNanos?.toString() ?? null,
  limitPercent,
  isMailed,
});

function readRule(form: Form, accountId: string): AlertRule | undefined {
  const isSet = (name: string): boolean => form.typed(name) !== "";
  const lowBalanceNanos = isSet("low-balance") ? readUsd(form, "low-balance", { min: 1n }) : null;
  const limitPercent = isSet("limit-percent") ? readNumber(form, "limit-percent", 100) : null;
  if (limitPercent === 0) form.refuse("limit-percent", "Give a whole number from 1 to 100.");
  if (lowBalanceNanos === undefined || limitPercent === undefined || form.errors.size > 0) return undefined;
  return { accountId, lowBalanceNanos, limitPercent, isMailed: form.typed("by-mail") === "yes" };
}

async function change(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId, form } = request;
  const rule = readRule(form, accountId);
  if (!rule) return again(alertsTitle, await alertsPage(deps, request));
  await inTransaction(deps.pool, async (db) => {
    const before = await findAlertRule(db, accountId);
    await setAlertRule(db, rule);
    const values = { ...(before && { before: auditRule(before) }), after: auditRule(rule) };
    await recordAudit(db, actorOf(request), { action: "alerts.change", accountId, target: accountId, ...values });
  });
  return redirect(alertsPath(request), "The alerts are changed.");
}

/** A URL to which messages may go. What its name resolves to is looked at with each message. */
function readUrl({ webhookRules }: Deps, form: Form): string | undefined {
  const text = form.typed("url");
  try {
    if (text.length <= maxUrlLength) return checkUrl(text, undefined, webhookRules).href;
    return form.refuse("url", `Use at most ${maxUrlLength} characters.`);
  } catch (error) {
    if (!(error instanceof FetchRefusedError)) throw error;
    return form.refuse("url", "Give an address such as https://example.org/hook, of the public internet.");
  }
}

async function addWebhook(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId, form, visitor } = request;
  const url = readUrl(deps, form);
  if (url === undefined) return again(alertsTitle, await alertsPage(deps, request));
  const [webhookId, secret] = [randomUUID(), randomBytes(32)];
  const sealedSecret = deps.box.seal(secret, sealedFor(webhookId));
  const createdBy = visitor.person.personId;
  const isAdded = await inTransaction(deps.pool, async (db) => {
    if (!(await insertWebhook(db, { webhookId, accountId, url, sealedSecret, createdBy }, maxWebhooks))) return false;
    const event = { action: "webhook.create", accountId, target: webhookId, after: { url } } as const;
    await recordAudit(db, actorOf(request), event);
    return true;
  });
  if (!isAdded) {
    form.refuse("url", `An account has at most ${maxWebhooks} webhooks. Delete one first.`);
    return again(alertsTitle, await alertsPage(deps, request));
  }
  return page("Your new webhook", secretPage(request, secret));
}

const secretPage = (request: AccountRequest, secret: Buffer): Markup =>
  html`<p class="problems">
      Copy the secret now and keep it safe: it is shown this once. Messages to this webhook are signed with it, so that
      you can tell them from others.
    </p>
    <p><code class="secret" id="secret">${secretText(secret)}</code> ${copyButton("secret", "the secret")}</p>
    <p>
      The signature is that of <a href="https://www.standardwebhooks.com">Standard Webhooks</a>, for which there are
      libraries in most languages.
    </p>
    <p><a href="${alertsPath(request)}">I have copied it: back to the alerts</a></p>`;

/** Another secret for a webhook. Messages are signed with both for a day, so that none is refused meanwhile. */
async function newSecret(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const [webhookId, secret] = [idOf(request), randomBytes(32)];
  const sealedSecret = deps.box.seal(secret, sealedFor(webhookId));
  await inTransaction(deps.pool, async (db) => {
    const webhook = await rotateSecret(db, { accountId, webhookId, sealedSecret });
    if (!webhook) throw new Problem("not-found");
    const after = { url: webhook.url };
    await recordAudit(db, actorOf(request), { action: "webhook.secret", accountId, target: webhookId, after });
  });
  return page(
    "The new secret of your webhook",
    html`${secretPage(request, secret)}
      <p>The secret before it stays valid for 24 hours: each message is signed with both until then.</p>`,
  );
}

function idOf({ parameters }: AccountRequest): string {
  const id = parameters["webhookId"] ?? "";
  if (!isUuid(id)) throw new Problem("not-found");
  return id;
}

async function ownWebhook({ pool }: Deps, request: AccountRequest): Promise<Webhook> {
  const id = idOf(request);
  const webhook = (await listWebhooks(pool, request.accountId)).find(({ webhookId }) => webhookId === id);
  if (!webhook) throw new Problem("not-found");
  return webhook;
}

async function sendTest(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { webhookId, url } = await ownWebhook(deps, request);
  if (!(await mayTest(deps.pool, request.accountId, maxTestsPerMinute))) {
    return redirect(alertsPath(request), "Too many tests were sent in the last minute. Try again in a minute.");
  }
  const event = testEvent(request.accountId, new Date(deps.clock.nowMs()));
  await insertDeliveries(deps.pool, event, [{ recipient: url, webhookId }]);
  return redirect(alertsPath(request), "A test is on its way. Look for it below in a moment.");
}

async function removeWebhook(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  await inTransaction(deps.pool, async (db) => {
    const deleted = await deleteWebhook(db, accountId, idOf(request));
    if (!deleted) throw new Problem("not-found");
    const { webhookId: target, url } = deleted;
    await recordAudit(db, actorOf(request), { action: "webhook.delete", accountId, target, before: { url } });
  });
  return redirect(alertsPath(request), "The webhook is deleted.");
}
