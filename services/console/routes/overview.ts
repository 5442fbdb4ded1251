import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { nextPage, table, usd } from "../controls.ts";
import { findAccount, findAccounts } from "../directory.ts";
import { html } from "../html.ts";
import type { Parts } from "../parts.ts";
import { Problem } from "../problem.ts";
import { accountRoute, get, page, personRoute, redirect } from "../route.ts";
import type { Answer, InAccount, Route, SignedIn } from "../route.ts";
import { listMemberships } from "../store/memberships.ts";

const pageSize = 20;

/** The start page, a person's accounts, and the overview of one. */
export function overviewRoutes(parts: Parts): Route[] {
  return [
    personRoute(get("/"), (asked) => start(parts, asked)),
    personRoute(get("/accounts"), (asked) => listOwn(parts, asked)),
    accountRoute(get(""), "overview.view", (asked) => overview(parts, asked)),
  ];
}

async function start({ pool }: Parts, { visitor }: SignedIn): Promise<Answer> {
  const { person } = visitor;
  const some = await listMemberships(pool, person.personId, { afterId: "", limit: 2 });
  const [only, another] = some;
  if (only && !another && !person.isOperator) return redirect(`/accounts/${only.accountId}`);
  return redirect(!only && person.isOperator ? "/operator/accounts" : "/accounts");
}

async function listOwn(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { personId } = asked.visitor.person;
  const afterId = asked.query("after");
  const memberships = await listMemberships(parts.pool, personId, { afterId, limit: pageSize + 1 });
  const shown = memberships.slice(0, pageSize);
  const accounts = await findAccounts(
    parts,
    shown.map(({ accountId }) => accountId),
  );
  const rows = shown.map(
    ({ accountId, role }) =>
      html`<tr>
        <th scope="row"><a href="/accounts/${accountId}">${accounts.get(accountId)?.name ?? accountId}</a></th>
        <td>${accountId}</td>
        <td>${role}</td>
      </tr>`,
  );
  const last = memberships.length > pageSize ? shown.at(-1) : undefined;
  const hint =
    rows.length === 0 && html`<p>Nobody has given you a role in an account yet. Ask its owner to invite you.</p>`;
  return page(
    "My accounts",
    html`${table("Accounts in which you have a role", ["Account", "Id", "Your role"], rows)}${hint}
    ${last && nextPage(`/accounts?after=${last.accountId}`)}`,
  );
}

async function overview(parts: Parts, { accountId, roles }: InAccount): Promise<Answer> {
  const { authQuota, billing } = parts;
  const [account, balance, holds, list] = await Promise.all([
    findAccount(parts, accountId),
    billing.getBalance({ accountId }),
    authQuota.getHolds({ accountId }),
    authQuota.listKeys({ accountId }),
  ]);
  if (!account) throw new Problem("not-found");
  const active = list.keys.filter(({ status }) => status === KeyStatus.ACTIVE).length;
  const suspended = html`<p class="problems">This account is suspended: its keys are refused. Ask your operator.</p>`;
  return page(
    account.name,
    html`${account.status === AccountStatus.SUSPENDED && suspended}
      <dl class="figures">
        <div>
          <dt>Balance</dt>
          <dd>${usd(balance.balanceNanos)}</dd>
        </div>
        <div>
          <dt>Available now</dt>
          <dd>${usd(holds.availableNanos)}</dd>
        </div>
        <div>
          <dt>Held for running calls</dt>
          <dd>${usd(holds.heldNanos)} in ${holds.openHolds} calls</dd>
        </div>
        <div>
          <dt>Paid in</dt>
          <dd>${usd(balance.creditedNanos)}</dd>
        </div>
        <div>
          <dt>Charged</dt>
          <dd>${usd(balance.chargedNanos)}</dd>
        </div>
        <div>
          <dt>Keys</dt>
          <dd>${active} active of ${list.keys.length}</dd>
        </div>
        <div>
          <dt>Your role</dt>
          <dd>${roles.join(", ")}</dd>
        </div>
      </dl>`,
  );
}
