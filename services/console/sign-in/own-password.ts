import { maxPassword } from "../html/form.ts";
import { recordFailure } from "./record-failure.ts";
import type { Deps } from "../deps.ts";
import type { SignedInRequest } from "../html/route.ts";

/**
 * Whether the field `password` is right; otherwise the form says so. A wrong one counts as a failed sign-in: who has
 * taken over a session must not find the password out with it.
 */
export async function isOwnPassword(
  deps: Pick<Deps, "pool" | "log" | "passwords">,
  request: SignedInRequest,
): Promise<boolean> {
  const { visitor, form } = request;
  const { email, passwordHash, hasPassword, isLocked } = visitor.person;
  if (!hasPassword) {
    form.refuse("password", "You have none yet. Set one in your profile first.");
    return false;
  }
  const isRight = await deps.passwords.verify(passwordHash, form.exact("password").slice(0, maxPassword + 1));
  if (isRight && !isLocked) return true;
  await recordFailure(deps, request, email);
  form.refuse("password", "This is not your password, or there were too many attempts.");
  return false;
}
