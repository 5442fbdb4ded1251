import { html } from "./html/html.ts";
import type { Parts } from "./parts.ts";
import { page, type Answer } from "./html/route.ts";
import { invitationDays } from "./store/invitations.ts";

type Made = { token: string; email: string; back: string };

/** The page with the link of an invitation, which is shown this once: only its hash is kept. */
export function invitationLink({ publicUrl }: Pick<Parts, "publicUrl">, { token, email, back }: Made): Answer {
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
