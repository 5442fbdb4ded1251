import { inTransaction } from "#shared/stores/postgres.ts";
import { emailField, form, input } from "../../html/controls.ts";
import { readEmail, readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { openSession } from "../../sign-in/open-session.ts";
import type { Deps } from "../../deps.ts";
import { newPasswordFields } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  page,
  post,
  publicRoute,
  redirect,
  type PageResponse,
  type PageRequest,
  type Route,
} from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { isBootstrapOpen, takeBootstrapToken } from "../../store/bootstrap.ts";
import { insertMembership } from "../../store/memberships.ts";
import { insertPerson } from "../../store/people.ts";
import { recordAudit } from "../../audit-log.ts";

const title = "Set up the console";

/** The first operator, by the token of the first start. The page is gone once it was used. */
export function setupRoutes(deps: Deps): Route[] {
  const whileOpen = async (answer: () => Promise<PageResponse>): Promise<PageResponse> => {
    if (!(await isBootstrapOpen(deps.pool))) throw new Problem("not-found");
    return answer();
  };
  return [
    publicRoute(get("/setup"), (request) => whileOpen(async () => page(title, setupForm(request)))),
    publicRoute({ ...post("/setup"), isGuessable: true }, (request) => whileOpen(() => setUp(deps, request))),
  ];
}

function setupForm(request: PageRequest): Markup {
  return html`<p>You become the first operator, who creates accounts, books payments and invites others.</p>
    ${form(
      request,
      { action: "/setup", button: "Set up" },
      html`${input(request.form, {
        name: "token",
        label: "Token",
        hint: "Printed in the log of the console's first start.",
        maxLength: 100,
      })}
      ${emailField(request.form, "username")} ${newPasswordFields(request.form)}`,
    )}`;
}

async function setUp(
  { pool, passwords, bootstrapAccountId: accountId }: Deps,
  request: PageRequest,
): Promise<PageResponse> {
  const email = readEmail(request.form, "email");
  const password = readNewPassword(request.form, email ?? "");
  if (email === undefined || password === undefined) return again(title, setupForm(request));
  const passwordHash = await passwords.hash(password);
  const sessionToken = await inTransaction(pool, async (db) => {
    if (!(await takeBootstrapToken(db, hashToken(request.form.typed("token"))))) return undefined;
    const personId = await insertPerson(db, { email, passwordHash, isOperator: true });
    if (personId === undefined) throw new Problem("refused");
    const who = { personId, email, address: request.address };
    const after = { email, isOperator: true, ...(accountId !== undefined && { owns: accountId }) };
    await recordAudit(db, who, { action: "person.bootstrap", target: personId, after });
    if (accountId !== undefined) await insertMembership(db, { personId, accountId, role: "owner" });
    return openSession(db, request, { personId, isComplete: true, flash: "The console is set up." });
  });
  if (sessionToken !== undefined) return { ...redirect("/profile/second-factor"), sessionToken };
  request.form.refuse("token", "This token is wrong, was used, or is too old.");
  return again(title, setupForm(request));
}
