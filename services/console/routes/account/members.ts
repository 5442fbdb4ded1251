import { inTransaction } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { button, choice, emailField, form, instant, nextPage, table } from "../../html/controls.ts";
import { findAccount } from "../../directory.ts";
import { readEmail } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { invitationLink } from "../../invitation-link.ts";
import type { Deps } from "../../deps.ts";
import { may, mayManageOwners, memberRoles, type MemberRole } from "../../permissions.ts";
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
import { createToken, hashToken } from "../../credentials/secrets.ts";
import { insertInvitation, listInvitations, withdrawInvitation, type Invitation } from "../../store/invitations.ts";
import { deleteMembership, listMembers, lockMember, setRole, type Member } from "../../store/memberships.ts";
import { markForRotation } from "../../store/sessions.ts";
import { recordAudit, actorOf } from "../../audit-log.ts";
import { domainsPath } from "./domains-page.ts";
import { lockCount } from "../../store/lock-count.ts";

const pageSize = 50;
const maxInvitations = 100;
const roleChoices = memberRoles.map((role) => [role, role] as const);

/** Who has a role in an account. */
export function memberRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/members"), "members.view", async (request) => page("Members", await list(deps, request))),
    accountRoute(post("/members"), "members.manage", (request) => invite(deps, request)),
    accountRoute(post("/members/invitations/:invitationId/withdraw"), "members.manage", (request) =>
      withdraw(deps, request),
    ),
    accountRoute(post("/members/:personId/role"), "members.manage", (request) => changeRole(deps, request)),
    accountRoute(get("/members/:personId/remove"), "members.manage", (request) => askRemove(deps, request)),
    accountRoute(post("/members/:personId/remove"), "members.manage", (request) => remove(deps, request)),
  ];
}

const membersPath = ({ accountId }: AccountRequest): string => `/accounts/${accountId}/members`;

function idIn({ parameters }: AccountRequest, name: string): string {
  const id = parameters[name] ?? "";
  if (!isUuid(id)) throw new Problem("not-found");
  return id;
}

async function list({ pool, domainSignIn }: Deps, request: AccountRequest): Promise<Markup> {
  const { accountId, roles } = request;
  const mayManage = may(roles, "members.manage");
  const members = await listMembers(pool, accountId, { afterEmail: request.query("after"), limit: pageSize + 1 });
  const shown = members.slice(0, pageSize);
  const last = members.length > pageSize ? shown.at(-1) : undefined;
  const invitations = mayManage ? await listInvitations(pool, accountId, maxInvitations) : [];
  const rows = shown.map((member) => memberRow(request, member, mayManage));
  return html`${table("Members of this account", ["Address", "Role", ...(mayManage ? ["Actions"] : [])], rows)}
  ${last && nextPage(`${membersPath(request)}?after=${encodeURIComponent(last.email)}`)}
  ${
    mayManage &&
    html`<h2>Invite a member</h2>
      ${inviteForm(request)}${openInvitations(request, invitations)}`
  }
  ${
    domainSignIn &&
    may(roles, "domains.manage") &&
    html`<p><a href="${domainsPath(request)}">Sign-in by domain</a>: who becomes a member without an invitation.</p>`
  }`;
}

function memberRow(request: AccountRequest, { personId, email, role }: Member, mayManage: boolean): Markup {
  const path = `${membersPath(request)}/${personId}`;
  const options = roleChoices.map(
    ([value, words]) => html`<option value="${value}" ${value === role && html` selected`}>${words}</option>`,
  );
  const actions = html`<td>
    <form class="inline" method="post" action="${path}/role">
      ${request.csrfField}
      <label class="hidden" for="role-${personId}">Role of ${email}</label>
      <select id="role-${personId}" name="new-role">
        ${options}
      </select>
      <button>Change role<span class="hidden"> of ${email}</span></button>
    </form>
    <a href="${path}/remove">Remove<span class="hidden"> ${email}</span></a>
  </td>`;
  return html`<tr>
    <th scope="row">${email}</th>
    <td>${role}</td>
    ${mayManage && actions}
  </tr>`;
}

function inviteForm(request: AccountRequest): Markup {
  return form(
    request,
    { action: membersPath(request), button: "Invite" },
    html`${emailField(request.form)}
    ${choice(request.form, {
      name: "role",
      label: "Role",
      hint:
        "Admins do what owners do, but for owners themselves; developers manage keys and use the playground; " +
        "billing manages money and alerts; viewers only view.",
      value: "developer",
      choices: roleChoices,
    })}`,
  );
}

function openInvitations(request: AccountRequest, invitations: Invitation[]): Markup {
  const rows = invitations.map(({ invitationId, email, role, expiresAt }) => {
    const action = `${membersPath(request)}/invitations/${invitationId}/withdraw`;
    return html`<tr>
      <th scope="row">${email}</th>
      <td>${role}</td>
      <td>${instant(expiresAt)}</td>
      <td>${button(request, { action, button: "Withdraw" }, `the invitation of ${email}`)}</td>
    </tr>`;
  });
  return table("Open invitations", ["Address", "Role", "Until", "Actions"], rows);
}

function readRole(request: AccountRequest, field: string): MemberRole | undefined {
  const role = memberRoles.find((known) => known === request.form.typed(field));
  return role ?? request.form.refuse(field, "Choose a role.");
}

/** Lets nobody make, change or remove an owner who may not. */
function checkOwners({ roles }: AccountRequest): void {
  if (!mayManageOwners(roles)) throw new Problem("not-allowed");
}

async function invite(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const email = readEmail(request.form, "email");
  const role = readRole(request, "role");
  if (role === "owner") checkOwners(request);
  if (email === undefined || role === undefined) return again("Members", await list(deps, request));
  if (!(await findAccount(deps, accountId))) throw new Problem("not-found");
  const token = createToken();
  const isInvited = await inTransaction(deps.pool, async (db) => {
    await lockCount(db, "invitation", accountId);
    if ((await listInvitations(db, accountId, maxInvitations)).length >= maxInvitations) return false;
    const invitedBy = request.visitor.person.personId;
    const target = await insertInvitation(db, { tokenHash: hashToken(token), email, accountId, role, invitedBy });
    await recordAudit(db, actorOf(request), { action: "invitation.create", accountId, target, after: { email, role } });
    return true;
  });
  if (!isInvited) {
    request.form.refuse("email", `At most ${maxInvitations} invitations can be open. Take some back first.`);
    return again("Members", await list(deps, request));
  }
  const { visitor: invitedBy } = request;
  return invitationLink(deps, { token, email, accountId, role, invitedBy, back: membersPath(request) });
}

async function withdraw(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const target = idIn(request, "invitationId");
  await inTransaction(deps.pool, async (db) => {
    const taken = await withdrawInvitation(db, accountId, target);
    if (!taken) throw new Problem("not-found");
    const before = { email: taken.email, role: taken.role };
    await recordAudit(db, actorOf(request), { action: "invitation.withdraw", accountId, target, before });
  });
  return redirect(membersPath(request), "The invitation is taken back.");
}

const needsOwner = "An account needs an owner. Make somebody else an owner first.";

async function changeRole(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const personId = idIn(request, "personId");
  const role = readRole(request, "new-role");
  if (role === undefined) throw new Problem("bad-request");
  const flash = await inTransaction(deps.pool, async (db) => {
    const member = await lockMember(db, accountId, personId);
    if (!member) throw new Problem("not-found");
    if (role === "owner" || member.role === "owner") checkOwners(request);
    if (member.isLastOwner && role !== "owner") return needsOwner;
    await setRole(db, { personId, accountId, role });
    await markForRotation(db, personId);
    const [before, after] = [{ role: member.role }, { role }];
    await recordAudit(db, actorOf(request), { action: "member.role", accountId, target: personId, before, after });
    return `${member.email} is ${role} now.`;
  });
  return redirect(membersPath(request), flash);
}

async function askRemove(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const personId = idIn(request, "personId");
  const member = await inTransaction(deps.pool, (db) => lockMember(db, request.accountId, personId));
  if (!member) throw new Problem("not-found");
  const { email } = member;
  const removePath = `${membersPath(request)}/${personId}/remove`;
  return page(
    "Remove member",
    html`<p>
        ${email} loses the role ${member.role} in this account. Keys stay as they are: stop those that ${email} knows.
      </p>
      ${form(request, { action: removePath, button: "Remove member", isDanger: true })}
      <p><a href="${membersPath(request)}">Keep ${email}</a></p>`,
  );
}

async function remove(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const personId = idIn(request, "personId");
  const flash = await inTransaction(deps.pool, async (db) => {
    const member = await lockMember(db, accountId, personId);
    if (!member) throw new Problem("not-found");
    if (member.role === "owner") checkOwners(request);
    if (member.isLastOwner) return needsOwner;
    await deleteMembership(db, personId, accountId);
    await markForRotation(db, personId);
    const before = { email: member.email, role: member.role };
    await recordAudit(db, actorOf(request), { action: "member.remove", accountId, target: personId, before });
    return `${member.email} is removed.`;
  });
  // Whoever has removed oneself has no role here any more.
  const isSelf = personId === request.visitor.person.personId && flash !== needsOwner;
  return redirect(isSelf ? "/" : membersPath(request), flash);
}
