import { html } from "./html/html.ts";
import type { Deps } from "./deps.ts";
import { page, type PageResponse, type Visitor } from "./html/route.ts";
import { countInvitationsOfDay, invitationDays, type Invitation } from "./store/invitations.ts";

type NewInvitation = Pick<Invitation, "accountId" | "email" | "role"> & {
  token: string;
  back: string;
  invitedBy: Visitor;
};

// Whoever may invite could else have mails sent to anybody without end.
const maxMailsOfDay = 100;

/** Mails the link of an invitation, if it can, and shows it this once: only its hash is kept. */
export async function invitationLink(deps: Deps, invitation: NewInvitation): Promise<PageResponse> {
  const { token, email, back } = invitation;
  const link = new URL(`/invitations/${token}`, deps.publicUrl).href;
  const isMailed = await mailLink(deps, invitation, link);
  return page(
    "Invitation made",
    html`<p class="problems">
        ${isMailed ? `This link was mailed to ${email}.` : `Send this link to ${email}.`} It is shown this once, works
        once, and for ${invitationDays} days. Whoever has it can accept the invitation in the name of ${email}.
      </p>
      <p><code class="secret">${link}</code></p>
      <p><a href="${back}">${isMailed ? "Back" : "I have sent it: back"}</a></p>`,
  );
}

/** Whether the mail server has taken it; without one, or when it does not, people send the link themselves. */
async function mailLink(
  { mailer, pool, publicUrl, log }: Deps,
  { accountId, email, role, invitedBy }: NewInvitation,
  link: string,
): Promise<boolean> {
  if (!mailer || (await countInvitationsOfDay(pool, accountId)) > maxMailsOfDay) return false;
  // Nothing in it is free text of who invites.
  const place = accountId === null ? "as an operator" : `to the account ${accountId} as ${role}`;
  const text = `${invitedBy.person.email} has invited you to ${publicUrl.host}, ${place}.

Accept the invitation: ${link}

The link works once, and for ${invitationDays} days. If you do not expect it, do nothing.
`;
  try {
    await mailer.send({ to: email, subject: `Invitation to ${publicUrl.host}`, text });
    return true;
  } catch (error) {
    log.warn({ err: error, accountId }, "failed to mail an invitation");
    return false;
  }
}
