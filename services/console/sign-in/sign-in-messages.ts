import { html, type Markup } from "../html/html.ts";
import type { OidcRefusal } from "../credentials/oidc.ts";

/** What the sign-in page may be asked to say first. */
export type SignInMessage = "signed-out" | "password-reset" | Trouble;

/** What may go wrong at the issuer or on the way back. */
export type Trouble = "stale" | "unknown" | "refused" | "invited" | "no-address" | "taken" | OidcRefusal;

const done: Partial<Record<SignInMessage, string>> = {
  "signed-out": "You are signed out.",
  "password-reset": "Your new password is set, and all your sessions have ended. Sign in with it.",
};

/** What went wrong at the issuer or on the way back, as a sentence for people who call it `issuer`. */
export const troubles: Record<Trouble, (issuer: string) => string> = {
  away: (issuer) => `${issuer} does not answer. Use your password, or try again in a minute.`,
  cancelled: (issuer) => `${issuer} says that you did not want to go on. Nothing was changed.`,
  failed: (issuer) => `${issuer} did not confirm who you are. Try again, or use your password.`,
  stale: (issuer) =>
    `Going to ${issuer} was begun in another browser, took longer than ten minutes, or was done already. Begin again.`,
  unknown: (issuer) =>
    `Nobody here is linked to this account of ${issuer}. Sign in with your password, then link it in your profile.`,
  refused: () => "You cannot sign in now. Try again in 15 minutes, or ask your operator.",
  invited: () => "You are invited: open the link of the invitation that you were sent.",
  "no-address": (issuer) =>
    `${issuer} did not confirm that this address is yours: it must be the one that you have there, and be verified. ` +
    "Sign in there as somebody else, or choose a password.",
  taken: (issuer) => `This account of ${issuer} is linked to somebody else here, or you have linked another one.`,
};

const isTrouble = (name: string): name is keyof typeof troubles => Object.hasOwn(troubles, name);
const isDone = (name: string): name is keyof typeof done => Object.hasOwn(done, name);

/** The sentence of a note; nothing for other names, which anybody can put in a link. */
export function signInMessage(name: string, issuer: string | undefined): Markup | undefined {
  if (isDone(name)) return html`<p class="notice" role="status">${done[name]}</p>`;
  if (!isTrouble(name) || issuer === undefined) return undefined;
  return html`<p class="problems" role="alert">${troubles[name](issuer)}</p>`;
}
