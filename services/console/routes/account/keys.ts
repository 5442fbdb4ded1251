import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { KeyStatus, type Key } from "#proto/authquota/v1/authquota_pb.ts";
import type { KeyFunds } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { isId } from "../../ids.ts";
import { money } from "../../html/amounts.ts";
import { ago, badge, button, emptyState, figure, form, nextPage, pageNumberOf, table } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { html, type Markup } from "../../html/html.ts";
import { keyVariable } from "../../html/snippets/place.ts";
import { snippetTabs, usableModels } from "../../html/snippet-tabs.ts";
import { readLoadedModels, type LoadedModel } from "../../loaded-models.ts";
import { auditSettings, keyFields, lastDayOf, nameOf, readKeySettings, settingsOf } from "../../html/key-fields.ts";
import { tagLinks, tagsOf } from "../../html/tags.ts";
import { changedLimit, limitAndRest, setLimit } from "../../html/limit-fields.ts";
import type { Deps } from "../../deps.ts";
import { may } from "../../permissions.ts";
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
import { auditAround, actorOf } from "../../audit-log.ts";

const pageSize = 50;

/** The keys of an account. */
export function keyRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/keys"), "keys.view", (request) => list(deps, request)),
    accountRoute(get("/keys/new"), "keys.create", async (request) => page("New key", newForm(request))),
    accountRoute(post("/keys/new"), "keys.create", (request) => create(deps, request)),
    accountRoute(get("/keys/:keyId"), "keys.change", async (request) =>
      page("Change key", changeForm(request, await findKey(deps, request))),
    ),
    accountRoute(post("/keys/:keyId"), "keys.change", (request) => change(deps, request)),
    accountRoute(get("/keys/:keyId/first-call"), "keys.view", (request) => firstCall(deps, request)),
    accountRoute(post("/keys/:keyId/stop"), "keys.change", (request) => switchKey(deps, request, "stop")),
    accountRoute(post("/keys/:keyId/activate"), "keys.change", (request) => switchKey(deps, request, "activate")),
    accountRoute(get("/keys/:keyId/delete"), "keys.delete", async (request) =>
      page("Delete key", deleteForm(request, await findKey(deps, request))),
    ),
    accountRoute(post("/keys/:keyId/delete"), "keys.delete", (request) => remove(deps, request)),
  ];
}

const keysPath = ({ accountId }: AccountRequest): string => `/accounts/${accountId}/keys`;

/** The key in the path, which must be one of this account. */
async function findKey({ authQuota }: Deps, { accountId, parameters }: AccountRequest): Promise<Key> {
  const keyId = parameters["keyId"] ?? "";
  if (!isId(keyId)) throw new Problem("not-found");
  const { keys } = await authQuota.getKeys({ keyIds: [keyId] });
  const [key] = keys;
  // Any account's keys are told by their ids, deleted ones too: here there is none but the own and living.
  if (key?.accountId !== accountId || key.status === KeyStatus.DELETED) throw new Problem("not-found");
  return key;
}

async function list(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId, roles } = request;
  const { keys: all } = await deps.authQuota.listKeys({ accountId });
  const tag = request.query("tag");
  const keys = tag === "" ? all : all.filter(({ tags }) => tags.includes(tag));
  const number = pageNumberOf(request);
  const shown = keys.slice(number * pageSize, (number + 1) * pageSize);
  const funds = await deps.billing.getFunds({ keyIds: shown.map(({ keyId }) => keyId) });
  const fundsOf = new Map(funds.keys.map((one) => [one.keyId, one]));
  const nowMs = deps.clock.nowMs();
  const rows = shown.map((key) => row(request, key, { funds: fundsOf.get(key.keyId), nowMs }));
  const makeKey = may(roles, "keys.create") && html`<a class="button" href="${keysPath(request)}/new">Create key</a>`;
  const next = new URLSearchParams({ ...(tag !== "" && { tag }), page: String(number + 1) });
  const none = emptyState("No keys yet", "A key lets a program call the API in the name of this account.", makeKey);
  return page(
    "Keys",
    html`${tagLinks(keysPath(request), tagsOf(all), tag)} ${all.length === 0 ? none : table(captionOf(tag), head, rows)}
    ${keys.length > (number + 1) * pageSize && nextPage(`${keysPath(request)}?${next.toString()}`)}`,
    makeKey && all.length > 0 ? { actions: makeKey } : {},
  );
}

const captionOf = (tag: string): string =>
  `Keys of this account${tag === "" ? "" : ` with the tag ${tag.slice(0, 64)}`}, newest first`;

const head = ["Name", "State", "Spent", "Limit", "Last used", "Expires on", "Models", "Actions"];

type KeyContext = { funds: KeyFunds | undefined; nowMs: number };

function row(request: AccountRequest, key: Key, { funds, nowMs }: KeyContext): Markup {
  const settings = settingsOf(key);
  const { expiresAt, models, requestsPerMinute, addresses } = settings;
  const spentNanos = funds?.spentNanos ?? 0n;
  return html`<tr>
    <th scope="row">
      ${nameOf(key)}<small><code>${key.secretPrefix}…</code></small>
      ${key.tags.length > 0 && html`<small>${key.tags.join(" ")}</small>`}
    </th>
    <td>${stateBadge(key, nowMs)}</td>
    <td class="amount">${money(spentNanos)}</td>
    <td class="amount">
      ${limitAndRest(settings, spentNanos - key.spentBeforeNanos) ?? "–"}
      ${requestsPerMinute > 0 && html`<small>${requestsPerMinute} calls a minute</small>`}
    </td>
    <td>${lastUse(funds)}</td>
    <td>${expiresAt ? lastDayOf(expiresAt) : "–"}</td>
    <td>
      ${models.length === 0 ? "all" : models.join(", ")}
      ${addresses.length > 0 && html`<small>only from ${addresses.join(", ")}</small>`}
    </td>
    <td>${actions(request, key)}</td>
  </tr>`;
}

function stateBadge(key: Key, nowMs: number): Markup {
  if (isExpired(key, nowMs)) return badge("expired", "warning");
  return key.status === KeyStatus.ACTIVE ? badge("active", "success") : badge("stopped", "danger");
}

/** When a charge of the key was booked last. Spending without a time is from before times were written down. */
function lastUse(funds: KeyFunds | undefined): Markup | string {
  if (funds?.chargedAt) return ago(timestampDate(funds.chargedAt));
  return (funds?.spentNanos ?? 0n) > 0n ? "not known" : "never";
}

const stateOf = ({ status }: Key): string => (status === KeyStatus.ACTIVE ? "active" : "stopped");

const isExpired = ({ status, expiresAt }: Key, nowMs: number): boolean =>
  status === KeyStatus.ACTIVE && expiresAt !== undefined && timestampDate(expiresAt).getTime() <= nowMs;

function actions(request: AccountRequest, key: Key): Markup {
  const { keyId, status } = key;
  const name = nameOf(key);
  const { roles } = request;
  const path = `${keysPath(request)}/${keyId}`;
  const turn = status === KeyStatus.ACTIVE ? "stop" : "activate";
  const label = turn === "stop" ? "Stop" : "Activate";
  const about = html`<span class="hidden"> ${name}</span>`;
  const usage = `/accounts/${request.accountId}/usage?key=${keyId}`;
  return html`<div class="row-of">
    ${may(roles, "usage.view") && html`<a href="${usage}">Usage${about}</a>`}
    ${
      may(roles, "keys.change") &&
      html`<a href="${path}">Change${about}</a> ${button(request, { action: `${path}/${turn}`, button: label }, name)}`
    }
    ${may(roles, "keys.delete") && html`<a href="${path}/delete">Delete${about}</a>`}
  </div>`;
}

const newForm = (request: AccountRequest): Markup =>
  form(request, { action: `${keysPath(request)}/new`, button: "Create key" }, keyFields(request.form));

async function create(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const settings = readKeySettings(request.form);
  if (!settings) return again("New key", newForm(request));
  const { name, expiresAt, limitNanos, models, requestsPerMinute, addresses, tags } = settings;
  const after = auditSettings(settings);
  const event = { action: "key.create", accountId, target: name, after } as const;
  const created = await auditAround(deps, actorOf(request), event, async () => {
    const made = await deps.authQuota.createKey({
      accountId,
      name,
      models,
      requestsPerMinute,
      addresses,
      tags,
      ...(expiresAt && { expiresAt: timestampFromDate(expiresAt) }),
      ...(limitNanos !== undefined && setLimit(limitNanos, settings)),
    });
    const madeId = made.key?.keyId ?? "";
    return { result: { keyId: madeId, secret: made.secret }, target: madeId, after: { keyId: madeId, ...after } };
  }).catch((error: unknown) => {
    if (!(error instanceof ServiceError) || error.code !== "failed_precondition") throw error;
  });
  if (!created) {
    request.form.refuse("name", "The account has as many keys as an account can have. Delete some first.");
    return again("New key", newForm(request));
  }
  const { keyId, secret } = created;
  const usable = usableModels((await readLoadedModels(deps.relays))?.models ?? []);
  const isAllowed = (model: LoadedModel): boolean => models.length === 0 || models.includes(model.name);
  const code = snippetTabs(deps.apiUrl.origin, usable.find(isAllowed));
  return page("Your new key", newKey(request, { keyId, name, secret }, code));
}

type NewKey = { keyId: string; name: string; secret: string };

const secretOf = ({ secret }: NewKey): Markup =>
  html`<code class="secret" id="secret">${secret}</code> ${copyButton("secret", "the secret")}`;

const newKey = (request: AccountRequest, made: NewKey, code: Markup): Markup =>
  html`<p class="problems">
      Copy the secret now and keep it safe. It is shown this once: nobody can show it again. Do not reload this page:
      that would make another key.
    </p>
    <section class="card">
      <dl>${figure("Name", made.name)} ${figure("Secret", secretOf(made))}</dl>
    </section>
    <section class="card">
      <h2>Try it now</h2>
      <p>Put it into your shell:</p>
      <p>
        <code id="shell-line">export ${keyVariable}=${made.secret}</code>
        ${copyButton("shell-line", "the line for the shell")}
      </p>
      ${code} ${waiting(request, made.keyId)}
    </section>
    <p><a href="${keysPath(request)}">I have copied it: back to the keys</a></p>`;

const waiting = (request: AccountRequest, keyId: string): Markup =>
  html`<p role="status" hx-get="${keysPath(request)}/${keyId}/first-call" hx-trigger="every 1s" hx-swap="outerHTML">
    Waiting for your first call…
  </p>`;

/** Whether a call of the key has been charged; what it came to, and the way to it. */
async function firstCall(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { keyId } = await findKey(deps, request);
  const { keys } = await deps.billing.getFunds({ keyIds: [keyId] });
  const [funds] = keys;
  if (!funds?.chargedAt) return { kind: "fragment", body: waiting(request, keyId) };
  const activity = `/accounts/${request.accountId}/activity?key=${keyId}`;
  const body = html`<p role="status">
    ${badge("it works", "success")} Your first call came and cost ${money(funds.spentNanos)}.
    <a href="${activity}">See it in Activity</a>
  </p>`;
  return { kind: "fragment", body };
}

function changeForm(request: AccountRequest, key: Key): Markup {
  return form(
    request,
    { action: `${keysPath(request)}/${key.keyId}`, button: "Save" },
    keyFields(request.form, settingsOf(key)),
  );
}

async function change(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const key = await findKey(deps, request);
  const { keyId } = key;
  const before = settingsOf(key);
  const settings = readKeySettings(request.form, before);
  if (!settings) return again("Change key", changeForm(request, key));
  const { name, expiresAt, models, requestsPerMinute, addresses, tags } = settings;
  const event = {
    action: "key.change",
    accountId: request.accountId,
    target: keyId,
    before: auditSettings(before),
    after: auditSettings(settings),
  } as const;
  await auditAround(deps, actorOf(request), event, async () => {
    await deps.authQuota.updateKey({
      keyId,
      name,
      ...(expiresAt ? { expiresAt: timestampFromDate(expiresAt) } : { clearExpiry: true }),
      ...changedLimit(settings),
      ...(models.length === 0 ? { clearModels: true } : { models }),
      requestsPerMinute,
      ...(addresses.length === 0 ? { clearAddresses: true } : { addresses }),
      ...(tags.length === 0 ? { clearTags: true } : { tags }),
    });
    return { result: undefined };
  });
  return redirect(keysPath(request), `The key ${name} is changed.`);
}

async function switchKey(deps: Deps, request: AccountRequest, turn: "stop" | "activate"): Promise<PageResponse> {
  const key = await findKey(deps, request);
  const { keyId } = key;
  const status = turn === "stop" ? KeyStatus.STOPPED : KeyStatus.ACTIVE;
  const after = { status: turn === "stop" ? "stopped" : "active" };
  const before = { status: stateOf(key) };
  const event = { action: `key.${turn}`, accountId: request.accountId, target: keyId, before, after } as const;
  await auditAround(deps, actorOf(request), event, async () => {
    await deps.authQuota.updateKey({ keyId, status });
    return { result: undefined };
  });
  return redirect(keysPath(request), `The key ${nameOf(key)} is ${after.status}.`);
}

function deleteForm(request: AccountRequest, key: Key): Markup {
  const { keyId } = key;
  return html`<p>The key ${nameOf(key)} will stop working permanently. Its spending stays in the ledger.</p>
    ${form(request, { action: `${keysPath(request)}/${keyId}/delete`, button: "Delete key", isDanger: true })}
    <p><a href="${keysPath(request)}">Keep it</a></p>`;
}

async function remove(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const key = await findKey(deps, request);
  const { keyId } = key;
  const before = { status: stateOf(key), ...auditSettings(settingsOf(key)) };
  const after = { status: "deleted" };
  const event = { action: "key.delete", accountId: request.accountId, target: keyId, before, after } as const;
  await auditAround(deps, actorOf(request), event, async () => {
    await deps.authQuota.deleteKey({ keyId });
    return { result: undefined };
  });
  return redirect(keysPath(request), `The key ${nameOf(key)} is deleted.`);
}
