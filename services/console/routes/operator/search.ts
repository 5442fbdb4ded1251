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
import type { Parts } from "../../parts.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type Answer,
  type Route,
  type SignedIn,
} from "../../html/route.ts";
import { listMemberships } from "../../store/memberships.ts";
import { findPersonByEmail, type Person } from "../../store/people.ts";

const base = "/operator/search";
const action = "search.use";
const title = "Search";
const mostText = 254;
const mostSearched = 200;
const mostFound = 20;

// What auth-quota keeps of a secret, to recognise it by, and the least by which it finds one.
const prefixLength = 10;
const leastPrefix = 6;

/** Finds accounts, keys, calls and people by what an operator has in hand. */
export function searchRoutes(parts: Parts): Route[] {
  return [
    operatorRoute(get("/search"), action, async (asked) => page(title, searchForm(asked, ""))),
    // By POST, so that nothing that is pasted stands in an address, a history or a log.
    operatorRoute(post("/search"), action, (asked) => search(parts, asked)),
    operatorRoute(get("/calls/:rid"), action, (asked) => openCall(parts, asked)),
  ];
}

function searchForm(asked: SignedIn, text: string): Markup {
  const hint =
    `An account's id or a part of its name; the first ${leastPrefix} to ${prefixLength} characters of a key; ` +
    "a key id; a request id; or an e-mail address.";
  const shown = createForm({ text });
  for (const [name, sentence] of asked.form.errors) shown.refuse(name, sentence);
  return form(
    asked,
    { action: base, button: "Search" },
    input(shown, { name: "text", label: "Search for", hint, most: mostText }),
  );
}

async function search(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { form: given } = asked;
  const text = readText(given, "text", { most: mostText, what: "something to look for" });
  if (text === undefined) return again(title, searchForm(asked, ""));
  const wanted = withoutSecret(text);
  return page(title, html`${searchForm(asked, wanted)}${await resultsOf(parts, wanted)}`);
}

const secretPattern = /(?<![\w-])sk-(?![\w-]*@)[\w-]+/;

/** Of a secret, wherever it stands in what was pasted, only the beginning is used: nobody sees it again. */
const withoutSecret = (text: string): string => secretPattern.exec(text)?.[0].slice(0, prefixLength) ?? text;

async function resultsOf(parts: Parts, text: string): Promise<Markup> {
  if (ridTimeMs(text.toLowerCase()) !== undefined) return callsFound(parts, text.toLowerCase());
  if (text.includes("@")) return peopleFound(parts, text);
  const [{ accounts }, { keys }] = await Promise.all([
    parts.authQuota.listAccounts({ search: text.slice(0, mostSearched), limit: mostFound + 1 }),
    keysFound(parts, text),
  ]);
  if (accounts.length + keys.length === 0) return nothing(`No account and no key is found for “${text}”.`);
  return html`${accounts.length > 0 && accountTable(accounts)} ${keys.length > 0 && keyTable(keys)}`;
}

const nothing = (sentence: string): Markup => html`<p role="status">${sentence}</p>`;

async function keysFound({ authQuota }: Parts, text: string): Promise<{ keys: Key[] }> {
  if (/^key_\w{1,60}$/.test(text)) return authQuota.getKeys({ keyIds: [text] });
  if (secretPattern.test(text) && text.length >= leastPrefix) return authQuota.findKeys({ secretPrefix: text });
  return { keys: [] };
}

async function callsFound(parts: Parts, rid: string): Promise<Markup> {
  const found = await accountOfCall(parts, rid);
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

type FoundCall = { accountId: string } | "archived" | undefined;

async function accountOfCall({ billing }: Parts, rid: string): Promise<FoundCall> {
  try {
    return await billing.getCall({ rid });
  } catch (error) {
    if (isArchived(error)) return "archived";
    if (error instanceof ServiceError && error.code === "not_found") return undefined;
    throw error;
  }
}

/** From a request id alone to the page of the call. */
async function openCall(parts: Parts, { parameters }: SignedIn): Promise<Answer> {
  const rid = parameters["rid"] ?? "";
  const found = ridTimeMs(rid) === undefined ? undefined : await accountOfCall(parts, rid);
  if (found === "archived") return archivedCall;
  if (found === undefined) throw new Problem("not-found");
  return redirect(`/accounts/${found.accountId}/calls/${rid}`);
}

async function peopleFound({ pool }: Parts, email: string): Promise<Markup> {
  const person = await findPersonByEmail(pool, email.normalize("NFC"));
  if (!person) return nothing(`Nobody signs in as “${email}”. Only whole addresses are found.`);
  const roles = await listMemberships(pool, person.personId, { afterId: "", limit: mostFound + 1 });
  return table("People found", ["Address", "State", "Operator", "Roles", "Audit log"], [personRow(person, roles)]);
}

function personRow(
  { email, status, isLocked, isOperator }: Person,
  roles: Awaited<ReturnType<typeof listMemberships>>,
): Markup {
  const lines = roles
    .slice(0, mostFound)
    .map(({ accountId, role }) => html`<li><a href="/operator/accounts/${accountId}">${accountId}</a>: ${role}</li>`);
  return html`<tr>
    <th scope="row">${email}</th>
    <td>${status}${isLocked && ", locked"}</td>
    <td>${isOperator ? "yes" : "no"}</td>
    <td>
      <ul class="values">
        ${lines.length === 0 ? html`<li>none</li>` : lines}${roles.length > mostFound && html`<li>and more</li>`}
      </ul>
    </td>
    <td><a href="/operator/audit?email=${encodeURIComponent(email)}">What was done</a></td>
  </tr>`;
}

function accountTable(accounts: Account[]): Markup {
  const rows = accounts.slice(0, mostFound).map(
    ({ accountId, name }) =>
      html`<tr>
        <th scope="row"><a href="/operator/accounts/${accountId}">${name}</a></th>
        <td>${accountId}</td>
      </tr>`,
  );
  return html`${table("Accounts found", ["Account", "Id"], rows)}
  ${accounts.length > mostFound && html`<p>There are more: type more of the name.</p>`}`;
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
