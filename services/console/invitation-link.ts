import { html } from "./html/html.ts";
import type { Deps } from "./deps.ts";
import { page, type PageResponse } from "./html/route.ts";
import { invitationDays } from "./store/invitations.ts";

type NewInvitation = { token: string; email: string; back: string };

/** The page with the link of an invitation, which is shown this once: only its hash is kept. */
export function invitationLink(
  { publicUrl }: Pick<Deps, "publicUrl">,
  { token, email, back }: NewInvitation,
): PageResponse {
  const link = new URL(`/invitations/${token}`, publicUrl).href;
  return page(
    "Invitation made",
    html`<p class="problems">
        Send this link to ${email}. It is shown this once, works once, and for ${invitationDays} days. Whoever has it
        can accept the invitation in the name of ${email}.
      </p>
      <p><code class="secret">${link}</code></p>
      <p><a href="${back}">I have sent it: back</a></p>`,
  );
}
