import { inTransaction } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { button, choice, emailField, form, instant, nextPage, table } from "../../html/controls.ts";
import { findAccount } from "../../directory.ts";
import { readEmail } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { invitationLink } from "../../invitation-link.ts";
import type { Parts } from "../../parts.ts";
import { may, memberRoles, type MemberRole } from "../../permissions.ts";
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
import { createToken, hashToken } from "../../credentials/secrets.ts";
import { insertInvitation, listInvitations, withdrawInvitation, type Invitation } from "../../store/invitations.ts";
import { deleteMembership, listMembers, lockMember, setRole, type Member } from "../../store/memberships.ts";
import { markForRotation } from "../../store/sessions.ts";
import { note, whoOf } from "../../trail.ts";

const pageSize = 50;
const mostInvitations = 100;
const roleChoices = memberRoles.map((role) => [role, role] as const);

/** Who has a role in an account. */
export function memberRoutes(parts: Parts): Route[] {
  return [
    accountRoute(get("/members"), "members.view", async (asked) => page("Members", await list(parts, asked))),
    accountRoute(post("/members"), "members.manage", (asked) => invite(parts, asked)),
    accountRoute(post("/members/invitations/:invitationId/withdraw"), "members.manage", (asked) =>
      withdraw(parts, asked),
    ),
    accountRoute(post("/members/:personId/role"), "members.manage", (asked) => changeRole(parts, asked)),
    accountRoute(get("/members/:personId/remove"), "members.manage", (asked) => askRemove(parts, asked)),
    accountRoute(post("/members/:personId/remove"), "members.manage", (asked) => remove(parts, asked)),
  ];
}

const membersPath = ({ accountId }: InAccount): string => `/accounts/${accountId}/members`;

function idIn({ parameters }: InAccount, name: string): string {
  const id = parameters[name] ?? "";
  if (!isUuid(id)) throw new Problem("not-found");
  return id;
}

async function list({ pool }: Parts, asked: InAccount): Promise<Markup> {
  const { accountId, roles } = asked;
  const mayManage = may(roles, "members.manage");
  const members = await listMembers(pool, accountId, { afterEmail: asked.query("after"), limit: pageSize + 1 });
  const shown = members.slice(0, pageSize);
  const last = members.length > pageSize ? shown.at(-1) : undefined;
  const invitations = mayManage ? await listInvitations(pool, accountId, mostInvitations) : [];
  const rows = shown.map((member) => memberRow(asked, member, mayManage));
  return html`${table("Members of this account", ["Address", "Role", ...(mayManage ? ["Actions"] : [])], rows)}
  ${last && nextPage(`${membersPath(asked)}?after=${encodeURIComponent(last.email)}`)}
  ${
    mayManage &&
    html`<h2>Invite somebody</h2>
      ${inviteForm(asked)}${openInvitations(asked, invitations)}`
  }`;
}

function memberRow(asked: InAccount, { personId, email, role }: Member, mayManage: boolean): Markup {
  const path = `${membersPath(asked)}/${personId}`;
  const options = roleChoices.map(
    ([value, words]) => html`<option value="${value}" ${value === role && html` selected`}>${words}</option>`,
  );
  const actions = html`<td>
    <form class="inline" method="post" action="${path}/role">
      ${asked.csrfField}
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

function inviteForm(asked: InAccount): Markup {
  return form(
    asked,
    { action: membersPath(asked), button: "Invite" },
    html`${emailField(asked.form)}
    ${choice(asked.form, {
      name: "role",
      label: "Role",
      hint: "Owners manage members and keys, members manage keys, read-only ones look.",
      value: "member",
      choices: roleChoices,
    })}`,
  );
}

function openInvitations(asked: InAccount, invitations: Invitation[]): Markup {
  const rows = invitations.map(({ invitationId, email, role, expiresAt }) => {
    const action = `${membersPath(asked)}/invitations/${invitationId}/withdraw`;
    return html`<tr>
      <th scope="row">${email}</th>
      <td>${role}</td>
      <td>${instant(expiresAt)}</td>
      <td>${button(asked, { action, button: "Take back" }, `the invitation of ${email}`)}</td>
    </tr>`;
  });
  return table("Open invitations", ["Address", "Role", "Until", "Actions"], rows);
}

function readRole(asked: InAccount, field: string): MemberRole | undefined {
  const role = memberRoles.find((known) => known === asked.form.typed(field));
  return role ?? asked.form.refuse(field, "Choose a role.");
}

async function invite(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId } = asked;
  const email = readEmail(asked.form, "email");
  const role = readRole(asked, "role");
  if (email === undefined || role === undefined) return again("Members", await list(parts, asked));
  if (!(await findAccount(parts, accountId))) throw new Problem("not-found");
  const token = createToken();
  const isInvited = await inTransaction(parts.pool, async (db) => {
    if ((await listInvitations(db, accountId, mostInvitations)).length >= mostInvitations) return false;
    const invitedBy = asked.visitor.person.personId;
    const target = await insertInvitation(db, { tokenHash: hashToken(token), email, accountId, role, invitedBy });
    await note(db, whoOf(asked), { action: "invitation.create", accountId, target, after: { email, role } });
    return true;
  });
  if (!isInvited) {
    asked.form.refuse("email", `At most ${mostInvitations} invitations can be open. Take some back first.`);
    return again("Members", await list(parts, asked));
  }
  return invitationLink(parts, { token, email, back: membersPath(asked) });
}

async function withdraw(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId } = asked;
  const target = idIn(asked, "invitationId");
  await inTransaction(parts.pool, async (db) => {
    const taken = await withdrawInvitation(db, accountId, target);
    if (!taken) throw new Problem("not-found");
    const before = { email: taken.email, role: taken.role };
    await note(db, whoOf(asked), { action: "invitation.withdraw", accountId, target, before });
  });
  return redirect(membersPath(asked), "The invitation is taken back.");
}

const needsOwner = "An account needs an owner. Make somebody else an owner first.";

async function changeRole(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId } = asked;
  const personId = idIn(asked, "personId");
  const role = readRole(asked, "new-role");
  if (role === undefined) throw new Problem("bad-request");
  const flash = await inTransaction(parts.pool, async (db) => {
    const member = await lockMember(db, accountId, personId);
    if (!member) throw new Problem("not-found");
    if (member.isLastOwner && role !== "owner") return needsOwner;
    await setRole(db, { personId, accountId, role });
    await markForRotation(db, personId);
    const [before, after] = [{ role: member.role }, { role }];
    await note(db, whoOf(asked), { action: "member.role", accountId, target: personId, before, after });
    return `${member.email} is ${role} now.`;
  });
  return redirect(membersPath(asked), flash);
}

async function askRemove(parts: Parts, asked: InAccount): Promise<Answer> {
  const personId = idIn(asked, "personId");
  const member = await inTransaction(parts.pool, (db) => lockMember(db, asked.accountId, personId));
  if (!member) throw new Problem("not-found");
  const { email } = member;
  return page(
    "Remove member",
    html`<p>
        ${email} loses the role ${member.role} in this account. Keys stay as they are: stop those that ${email} knows.
      </p>
      ${form(asked, { action: `${membersPath(asked)}/${personId}/remove`, button: "Remove member", isDanger: true })}
      <p><a href="${membersPath(asked)}">Keep ${email}</a></p>`,
  );
}

async function remove(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId } = asked;
  const personId = idIn(asked, "personId");
  const flash = await inTransaction(parts.pool, async (db) => {
    const member = await lockMember(db, accountId, personId);
    if (!member) throw new Problem("not-found");
    if (member.isLastOwner) return needsOwner;
    await deleteMembership(db, personId, accountId);
    await markForRotation(db, personId);
    const before = { email: member.email, role: member.role };
    await note(db, whoOf(asked), { action: "member.remove", accountId, target: personId, before });
    return `${member.email} is removed.`;
  });
  // Whoever has removed oneself has no role here any more.
  const isSelf = personId === asked.visitor.person.personId && flash !== needsOwner;
  return redirect(isSelf ? "/" : membersPath(asked), flash);
}
