import { mostPassword } from "../html/form.ts";
import { noteFailure } from "./note-failure.ts";
import type { Parts } from "../parts.ts";
import type { SignedIn } from "../html/route.ts";

/**
 * Whether the field `password` is right; otherwise the form says so. A wrong one counts as a failed sign-in: who has
 * taken over a session must not find the password out with it.
 */
export async function isOwnPassword(
  parts: Pick<Parts, "pool" | "log" | "passwords">,
  asked: SignedIn,
): Promise<boolean> {
  const { visitor, form } = asked;
  const { email, passwordHash, isLocked } = visitor.person;
  const isRight = await parts.passwords.verify(passwordHash, form.exact("password").slice(0, mostPassword + 1));
  if (isRight && !isLocked) return true;
  await noteFailure(parts, asked, email);
  form.refuse("password", "This is not your password, or there were too many attempts.");
  return false;
}
