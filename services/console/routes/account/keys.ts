import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { KeyStatus, type Key } from "#proto/authquota/v1/authquota_pb.ts";
import type { KeyFunds } from "#proto/billing/v1/billing_pb.ts";
import { isId } from "../../ids.ts";
import { button, figure, form, instant, nextPage, pageNumberOf, table, usd } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { html, type Markup } from "../../html/html.ts";
import { auditSettings, keyFields, lastDayOf, nameOf, readKeySettings, settingsOf } from "../../html/key-fields.ts";
import type { Parts } from "../../parts.ts";
import { may } from "../../permissions.ts";
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
import { noteAround, whoOf } from "../../trail.ts";

const pageSize = 50;

/** The keys of an account. */
export function keyRoutes(parts: Parts): Route[] {
  return [
    accountRoute(get("/keys"), "keys.view", (asked) => list(parts, asked)),
    accountRoute(get("/keys/new"), "keys.create", async (asked) => page("New key", newForm(asked))),
    accountRoute(post("/keys/new"), "keys.create", (asked) => create(parts, asked)),
    accountRoute(get("/keys/:keyId"), "keys.change", async (asked) =>
      page("Change key", changeForm(asked, await findKey(parts, asked))),
    ),
    accountRoute(post("/keys/:keyId"), "keys.change", (asked) => change(parts, asked)),
    accountRoute(post("/keys/:keyId/stop"), "keys.change", (asked) => switchKey(parts, asked, "stop")),
    accountRoute(post("/keys/:keyId/activate"), "keys.change", (asked) => switchKey(parts, asked, "activate")),
    accountRoute(get("/keys/:keyId/delete"), "keys.delete", async (asked) =>
      page("Delete key", deleteForm(asked, await findKey(parts, asked))),
    ),
    accountRoute(post("/keys/:keyId/delete"), "keys.delete", (asked) => remove(parts, asked)),
  ];
}

const keysPath = ({ accountId }: InAccount): string => `/accounts/${accountId}/keys`;

/** The key in the path, which must be one of this account. */
async function findKey({ authQuota }: Parts, { accountId, parameters }: InAccount): Promise<Key> {
  const keyId = parameters["keyId"] ?? "";
  if (!isId(keyId)) throw new Problem("not-found");
  const { keys } = await authQuota.getKeys({ keyIds: [keyId] });
  const [key] = keys;
  // Any account's keys are told by their ids, deleted ones too: here there is none but the own and living.
  if (key?.accountId !== accountId || key.status === KeyStatus.DELETED) throw new Problem("not-found");
  return key;
}

async function list(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId, roles } = asked;
  const { keys } = await parts.authQuota.listKeys({ accountId });
  const number = pageNumberOf(asked);
  const shown = keys.slice(number * pageSize, (number + 1) * pageSize);
  const funds = await parts.billing.getFunds({ keyIds: shown.map(({ keyId }) => keyId) });
  const fundsOf = new Map(funds.keys.map((one) => [one.keyId, one]));
  const nowMs = parts.clock.nowMs();
  const rows = shown.map((key) => row(asked, key, { funds: fundsOf.get(key.keyId), nowMs }));
  return page(
    "Keys",
    html`${may(roles, "keys.create") && html`<p><a class="button" href="${keysPath(asked)}/new">New key</a></p>`}
    ${table("Keys of this account, newest first", head, rows)}
    ${keys.length > (number + 1) * pageSize && nextPage(`${keysPath(asked)}?page=${number + 1}`)}`,
  );
}

const head = ["Name", "Begins with", "State", "Last day", "Last used", "Spent", "Limit", "Left", "Models", "Actions"];

type Known = { funds: KeyFunds | undefined; nowMs: number };

function row(asked: InAccount, key: Key, { funds, nowMs }: Known): Markup {
  const { expiresAt, limitNanos, models } = settingsOf(key);
  const spentNanos = funds?.spentNanos ?? 0n;
  return html`<tr>
    <th scope="row">${nameOf(key)}</th>
    <td><code>${key.secretPrefix}…</code></td>
    <td>${isExpired(key, nowMs) ? "expired" : stateOf(key)}</td>
    <td>${expiresAt ? lastDayOf(expiresAt) : "–"}</td>
    <td>${lastUse(funds)}</td>
    <td>${usd(spentNanos)}</td>
    <td>${limitNanos === undefined ? "–" : usd(limitNanos)}</td>
    <td>${limitNanos === undefined ? "–" : usd(leftOf(limitNanos, spentNanos))}</td>
    <td>${models.length === 0 ? "all" : models.join(", ")}</td>
    <td>${actions(asked, key)}</td>
  </tr>`;
}

// A call under way may cost more than was left when it began.
const leftOf = (limitNanos: bigint, spentNanos: bigint): bigint =>
  limitNanos > spentNanos ? limitNanos - spentNanos : 0n;

/** When a charge of the key was booked last. Spending without a time is from before times were written down. */
function lastUse(funds: KeyFunds | undefined): Markup | string {
  if (funds?.chargedAt) return instant(timestampDate(funds.chargedAt));
  return (funds?.spentNanos ?? 0n) > 0n ? "not known" : "never";
}

const stateOf = ({ status }: Key): string => (status === KeyStatus.ACTIVE ? "active" : "stopped");

const isExpired = ({ status, expiresAt }: Key, nowMs: number): boolean =>
  status === KeyStatus.ACTIVE && expiresAt !== undefined && timestampDate(expiresAt).getTime() <= nowMs;

function actions(asked: InAccount, key: Key): Markup {
  const { keyId, status } = key;
  const name = nameOf(key);
  const { roles } = asked;
  const path = `${keysPath(asked)}/${keyId}`;
  const turn = status === KeyStatus.ACTIVE ? "stop" : "activate";
  const label = turn === "stop" ? "Stop" : "Activate";
  const about = html`<span class="hidden"> ${name}</span>`;
  const usage = `/accounts/${asked.accountId}/usage?key=${keyId}`;
  return html`${may(roles, "usage.view") && html`<a href="${usage}">Usage${about}</a>`}
  ${
    may(roles, "keys.change") &&
    html`<a href="${path}">Change${about}</a> ${button(asked, { action: `${path}/${turn}`, button: label }, name)}`
  }
  ${may(roles, "keys.delete") && html` <a href="${path}/delete">Delete${about}</a>`}`;
}

const newForm = (asked: InAccount): Markup =>
  form(asked, { action: `${keysPath(asked)}/new`, button: "Make key" }, keyFields(asked.form));

async function create(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId } = asked;
  const settings = readKeySettings(asked.form);
  if (!settings) return again("New key", newForm(asked));
  const { name, expiresAt, limitNanos, models } = settings;
  const after = auditSettings(settings);
  const deed = { action: "key.create", accountId, target: name, after } as const;
  const secret = await noteAround(parts, whoOf(asked), deed, async () => {
    const made = await parts.authQuota.createKey({
      accountId,
      name,
      models,
      ...(expiresAt && { expiresAt: timestampFromDate(expiresAt) }),
      ...(limitNanos !== undefined && { limitNanos }),
    });
    const keyId = made.key?.keyId ?? "";
    return { result: made.secret, target: keyId, after: { keyId, ...after } };
  });
  return page(
    "Your new key",
    html`<p class="problems">
        Copy the secret now and keep it safe. It is shown this once: nobody can show it again. Do not reload this page:
        that would make another key.
      </p>
      <dl>
        ${figure("Name", name)}
        ${figure(
          "Secret",
          html`<code class="secret" id="secret">${secret}</code> ${copyButton("secret", "the secret")}`,
        )}
      </dl>
      <p><a href="${keysPath(asked)}">I have it: back to the keys</a></p>`,
  );
}

function changeForm(asked: InAccount, key: Key): Markup {
  return form(
    asked,
    { action: `${keysPath(asked)}/${key.keyId}`, button: "Save" },
    keyFields(asked.form, settingsOf(key)),
  );
}

async function change(parts: Parts, asked: InAccount): Promise<Answer> {
  const key = await findKey(parts, asked);
  const { keyId } = key;
  const before = settingsOf(key);
  const settings = readKeySettings(asked.form, before);
  if (!settings) return again("Change key", changeForm(asked, key));
  const { name, expiresAt, limitNanos, models } = settings;
  const deed = {
    action: "key.change",
    accountId: asked.accountId,
    target: keyId,
    before: auditSettings(before),
    after: auditSettings(settings),
  } as const;
  await noteAround(parts, whoOf(asked), deed, async () => {
    await parts.authQuota.updateKey({
      keyId,
      name,
      ...(expiresAt ? { expiresAt: timestampFromDate(expiresAt) } : { clearExpiry: true }),
      ...(limitNanos === undefined ? { clearLimit: true } : { limitNanos }),
      ...(models.length === 0 ? { clearModels: true } : { models }),
    });
    return { result: undefined };
  });
  return redirect(keysPath(asked), `The key ${name} is changed.`);
}

async function switchKey(parts: Parts, asked: InAccount, turn: "stop" | "activate"): Promise<Answer> {
  const key = await findKey(parts, asked);
  const { keyId } = key;
  const status = turn === "stop" ? KeyStatus.STOPPED : KeyStatus.ACTIVE;
  const after = { status: turn === "stop" ? "stopped" : "active" };
  const before = { status: stateOf(key) };
  const deed = { action: `key.${turn}`, accountId: asked.accountId, target: keyId, before, after } as const;
  await noteAround(parts, whoOf(asked), deed, async () => {
    await parts.authQuota.updateKey({ keyId, status });
    return { result: undefined };
  });
  return redirect(keysPath(asked), `The key ${nameOf(key)} is ${after.status}.`);
}

function deleteForm(asked: InAccount, key: Key): Markup {
  const { keyId } = key;
  return html`<p>The key ${nameOf(key)} will be refused for good. What it has spent stays in the ledger.</p>
    ${form(asked, { action: `${keysPath(asked)}/${keyId}/delete`, button: "Delete key", isDanger: true })}
    <p><a href="${keysPath(asked)}">Keep it</a></p>`;
}

async function remove(parts: Parts, asked: InAccount): Promise<Answer> {
  const key = await findKey(parts, asked);
  const { keyId } = key;
  const before = { status: stateOf(key), ...auditSettings(settingsOf(key)) };
  const after = { status: "deleted" };
  const deed = { action: "key.delete", accountId: asked.accountId, target: keyId, before, after } as const;
  await noteAround(parts, whoOf(asked), deed, async () => {
    await parts.authQuota.deleteKey({ keyId });
    return { result: undefined };
  });
  return redirect(keysPath(asked), `The key ${nameOf(key)} is deleted.`);
}
