import { KeyStatus, type Account, type Key } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { callLink } from "../../html/call-link.ts";
import { archivedCall } from "../account/calls.ts";
import { form, input, table } from "../../html/controls.ts";
import { createForm, readText } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { nameOf } from "../../html/key-fields.ts";
import { isArchived } from "../../html/ledger-lines.ts";
import type { Deps } from "../../deps.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { listMemberships } from "../../store/memberships.ts";
import { findPersonByEmail, type Person } from "../../store/people.ts";

const base = "/operator/search";
const action = "search.use";
const title = "Search";
const maxText = 254;
const maxSearched = 200;
const maxFound = 20;

// What auth-quota keeps of a secret, to recognise it by, and the least by which it finds one.
const prefixLength = 10;
const minPrefix = 6;

/** Finds accounts, keys, calls and people by what an operator has in hand. */
export function searchRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/search"), action, async (request) => page(title, searchForm(request, ""))),
    // By POST, so that nothing that is pasted stands in an address, a history or a log.
    operatorRoute(post("/search"), action, (request) => search(deps, request)),
    operatorRoute(get("/calls/:rid"), action, (request) => openCall(deps, request)),
  ];
}

function searchForm(request: SignedInRequest, text: string): Markup {
  const hint =
    `An account's id or a part of its name; the first ${minPrefix} to ${prefixLength} characters of a key; ` +
    "a key id; a request id; or an e-mail address.";
  const shown = createForm({ text });
  for (const [name, sentence] of request.form.errors) shown.refuse(name, sentence);
  return form(
    request,
    { action: base, button: "Search" },
    input(shown, { name: "text", label: "Search for", hint, maxLength: maxText }),
  );
}

async function search(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { form: given } = request;
  const text = readText(given, "text", { maxLength: maxText, what: "something to look for" });
  if (text === undefined) return again(title, searchForm(request, ""));
  const wanted = withoutSecret(text);
  return page(title, html`${searchForm(request, wanted)}${await resultsOf(deps, wanted)}`);
}

const secretPattern = /(?<![\w-])sk-(?![\w-]*@)[\w-]+/;

/** Of a secret, wherever it stands in what was pasted, only the beginning is used: nobody sees it again. */
const withoutSecret = (text: string): string => secretPattern.exec(text)?.[0].slice(0, prefixLength) ?? text;

async function resultsOf(deps: Deps, text: string): Promise<Markup> {
  if (ridTimeMs(text.toLowerCase()) !== undefined) return callsFound(deps, text.toLowerCase());
  if (text.includes("@")) return peopleFound(deps, text);
  const [{ accounts }, { keys }] = await Promise.all([
    deps.authQuota.listAccounts({ search: text.slice(0, maxSearched), limit: maxFound + 1 }),
    keysFound(deps, text),
  ]);
  if (accounts.length + keys.length === 0) return nothing(`No account and no key is found for “${text}”.`);
  return html`${accounts.length > 0 && accountTable(accounts)} ${keys.length > 0 && keyTable(keys)}`;
}

const nothing = (sentence: string): Markup => html`<p role="status">${sentence}</p>`;

async function keysFound({ authQuota }: Deps, text: string): Promise<{ keys: Key[] }> {
  if (/^key_\w{1,60}$/.test(text)) return authQuota.getKeys({ keyIds: [text] });
  if (secretPattern.test(text) && text.length >= minPrefix) return authQuota.findKeys({ secretPrefix: text });
  return { keys: [] };
}

async function callsFound(deps: Deps, rid: string): Promise<Markup> {
  const found = await accountOfCall(deps, rid);
  if (found === "archived") return nothing("What was booked on the day of this call is in the archive.");
  if (found === undefined) {
    return nothing("Nothing is booked for this request id: the call still runs, cost nothing, or was never made here.");
  }
  const { accountId } = found;
  const row = html`<tr>
    <th scope="row">${callLink(accountId, rid)}</th>
    <td><a href="/operator/accounts/${accountId}">${accountId}</a></td>
  </tr>`;
  return table("Calls found", ["Request id", "Account"], [row]);
}

type CallLookup = { accountId: string } | "archived" | undefined;

async function accountOfCall({ billing }: Deps, rid: string): Promise<CallLookup> {
  try {
    return await billing.getCall({ rid });
  } catch (error) {
    if (isArchived(error)) return "archived";
    if (error instanceof ServiceError && error.code === "not_found") return undefined;
    throw error;
  }
}

/** From a request id alone to the page of the call. */
async function openCall(deps: Deps, { parameters }: SignedInRequest): Promise<PageResponse> {
  const rid = parameters["rid"] ?? "";
  const found = ridTimeMs(rid) === undefined ? undefined : await accountOfCall(deps, rid);
  if (found === "archived") return archivedCall;
  if (found === undefined) throw new Problem("not-found");
  return redirect(`/accounts/${found.accountId}/calls/${rid}`);
}

async function peopleFound({ pool }: Deps, email: string): Promise<Markup> {
  const person = await findPersonByEmail(pool, email.normalize("NFC"));
  if (!person) return nothing(`Nobody signs in as “${email}”. Only whole addresses are found.`);
  const roles = await listMemberships(pool, person.personId, { afterId: "", limit: maxFound + 1 });
  return table("People found", ["Address", "State", "Operator", "Roles", "Audit log"], [personRow(person, roles)]);
}

function personRow(
  { email, status, isLocked, isOperator }: Person,
  roles: Awaited<ReturnType<typeof listMemberships>>,
): Markup {
  const lines = roles
    .slice(0, maxFound)
    .map(({ accountId, role }) => html`<li><a href="/operator/accounts/${accountId}">${accountId}</a>: ${role}</li>`);
  return html`<tr>
    <th scope="row">${email}</th>
    <td>${status}${isLocked && ", locked"}</td>
    <td>${isOperator ? "yes" : "no"}</td>
    <td>
      <ul class="values">
        ${lines.length === 0 ? html`<li>none</li>` : lines}${roles.length > maxFound && html`<li>and more</li>`}
      </ul>
    </td>
    <td><a href="/operator/audit?email=${encodeURIComponent(email)}">What was done</a></td>
  </tr>`;
}

function accountTable(accounts: Account[]): Markup {
  const rows = accounts.slice(0, maxFound).map(
    ({ accountId, name }) =>
      html`<tr>
        <th scope="row"><a href="/operator/accounts/${accountId}">${name}</a></th>
        <td>${accountId}</td>
      </tr>`,
  );
  return html`${table("Accounts found", ["Account", "Id"], rows)}
  ${accounts.length > maxFound && html`<p>There are more: type more of the name.</p>`}`;
}

const stateWords: Record<number, string> = {
  [KeyStatus.ACTIVE]: "active",
  [KeyStatus.STOPPED]: "stopped",
  [KeyStatus.DELETED]: "deleted",
};

function keyTable(keys: Key[]): Markup {
  const rows = keys.map(
    ({ keyId, accountId, name, secretPrefix, status }) =>
      html`<tr>
        <th scope="row">${nameOf({ keyId, name })}</th>
        <td><code>${secretPrefix}…</code></td>
        <td>${keyId}</td>
        <td>${stateWords[status] ?? "unknown"}</td>
        <td><a href="/operator/accounts/${accountId}">${accountId}</a></td>
        <td><a href="/accounts/${accountId}/keys">Keys of the account</a></td>
      </tr>`,
  );
  return table("Keys found", ["Name", "Begins with", "Id", "State", "Account", "More"], rows);
}
