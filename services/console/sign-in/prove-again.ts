import { inTransaction } from "#shared/stores/postgres.ts";
import type { Deps } from "../deps.ts";
import { input } from "../html/controls.ts";
import type { Form } from "../html/form.ts";
import type { Markup } from "../html/html.ts";
import { currentPasswordField } from "../html/password-fields.ts";
import type { SignedInRequest } from "../html/route.ts";
import { lockPerson, type Person } from "../store/people.ts";
import { isOwnPassword } from "./own-password.ts";
import { recordFailure } from "./record-failure.ts";
import { takeCode } from "./second-factor.ts";

/** How somebody has just shown that it is them and not their open or stolen session. */
export type Proof = "second factor" | "recovery code" | "password";

/** The field for it: a code where a second factor is set up, else the password. */
export function proofField(form: Form, { totpSecret }: Person): Markup {
  if (totpSecret === null) return currentPasswordField(form);
  return input(form, {
    name: "code",
    label: "Code of your second factor",
    hint: "The six digits that your authenticator app shows, or one of your recovery codes.",
    autocomplete: "one-time-code",
    maxLength: 40,
  });
}

/** Takes it; undefined when the form says what is wrong. Wrong ones count as failed sign-ins. */
export async function proveAgain(deps: Deps, request: SignedInRequest): Promise<Proof | undefined> {
  const { visitor, form } = request;
  const { personId, email, totpSecret } = visitor.person;
  if (totpSecret === null) return (await isOwnPassword(deps, request)) ? "password" : undefined;
  const kind = await inTransaction(deps.pool, async (db) => {
    const person = await lockPerson(db, personId);
    return person && !person.isLocked ? takeCode(deps, db, person, form.typed("code")) : undefined;
  });
  if (kind !== undefined) return kind === "app" ? "second factor" : "recovery code";
  await recordFailure(deps, request, email);
  return form.refuse("code", "This code is wrong or was used before, or there were too many attempts.");
}
