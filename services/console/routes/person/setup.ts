import { inTransaction } from "#shared/stores/postgres.ts";
import { emailField, form, input } from "../../html/controls.ts";
import { readEmail, readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { openSession } from "../../sign-in/open-session.ts";
import type { Parts } from "../../parts.ts";
import { newPasswordFields } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  page,
  post,
  publicRoute,
  redirect,
  type Answer,
  type Asked,
  type Route,
} from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { isBootstrapOpen, takeBootstrapToken } from "../../store/bootstrap.ts";
import { insertMembership } from "../../store/memberships.ts";
import { insertPerson } from "../../store/people.ts";
import { note } from "../../trail.ts";

const title = "Set up the console";

/** The first operator, by the token of the first start. The page is gone once it was used. */
export function setupRoutes(parts: Parts): Route[] {
  const whileOpen = async (answer: () => Promise<Answer>): Promise<Answer> => {
    if (!(await isBootstrapOpen(parts.pool))) throw new Problem("not-found");
    return answer();
  };
  return [
    publicRoute(get("/setup"), (asked) => whileOpen(async () => page(title, setupForm(asked)))),
    publicRoute({ ...post("/setup"), isGuessable: true }, (asked) => whileOpen(() => setUp(parts, asked))),
  ];
}

function setupForm(asked: Asked): Markup {
  return html`<p>You become the first operator: somebody who makes accounts, books payments and invites others.</p>
    ${form(
      asked,
      { action: "/setup", button: "Set up" },
      html`${input(asked.form, {
        name: "token",
        label: "Token",
        hint: "It is in the log of the console's first start.",
        most: 100,
      })}
      ${emailField(asked.form, "username")} ${newPasswordFields(asked.form)}`,
    )}`;
}

async function setUp({ pool, passwords, bootstrapAccountId: accountId }: Parts, asked: Asked): Promise<Answer> {
  const email = readEmail(asked.form, "email");
  const password = readNewPassword(asked.form, email ?? "");
  if (email === undefined || password === undefined) return again(title, setupForm(asked));
  const passwordHash = await passwords.hash(password);
  const sessionToken = await inTransaction(pool, async (db) => {
    if (!(await takeBootstrapToken(db, hashToken(asked.form.typed("token"))))) return undefined;
    const personId = await insertPerson(db, { email, passwordHash, isOperator: true });
    if (personId === undefined) throw new Problem("refused");
    const who = { personId, email, address: asked.address };
    const after = { email, isOperator: true, ...(accountId !== undefined && { owns: accountId }) };
    await note(db, who, { action: "person.bootstrap", target: personId, after });
    if (accountId !== undefined) await insertMembership(db, { personId, accountId, role: "owner" });
    return openSession(db, asked, { personId, isComplete: true, flash: "The console is set up." });
  });
  if (sessionToken !== undefined) return { ...redirect("/profile/second-factor"), sessionToken };
  asked.form.refuse("token", "This token is wrong, was used, or is too old.");
  return again(title, setupForm(asked));
}
