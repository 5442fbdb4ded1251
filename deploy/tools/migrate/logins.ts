import pg from "pg";
import { backupGroup, type Schema } from "./names.ts";
import { passwordVerifier } from "./password-verifier.ts";

/** What a service signs in with. */
export type ServiceLogin = {
  /** As the service has it: PostgreSQL, with the login and its password. */
  url: string;
  schema: Schema;
};

export type Owner = pg.Client & AsyncDisposable;

const connectTimeoutMs = 10_000;
const [insufficientPrivilege, duplicateObject, uniqueViolation] = ["42501", "42710", "23505"];
// "tuple concurrently updated" has no code of its own.
const concurrentUpdate = "XX000";

// What a statement may take, and what a transaction may that waits for a process which is paused: then it gives its
// locks back. Each service's own waiting is bounded besides; these end what it no longer waits for.
const defaultLimits = { statement_timeout: "30s", idle_in_transaction_session_timeout: "30s" };
const limitsOf: Record<Schema, Record<string, string>> = {
  auth_quota: { ...defaultLimits, statement_timeout: "5s" },
  billing: defaultLimits,
  video_task: defaultLimits,
  console: defaultLimits,
};

/** Connects to PostgreSQL; throws what tells why it cannot. */
export async function connect(url: string): Promise<Owner> {
  const client = clientOf(url);
  client.on("error", () => undefined);
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

/** The name of the login in a URL. */
export const loginName = (url: string): string => clientOf(url).user ?? "";

function clientOf(url: string): pg.Client {
  return new pg.Client({ connectionString: url, connectionTimeoutMillis: connectTimeoutMs });
}

/**
 * Makes sure that the login exists, is a member of its schema's group role, and has limits of time where the owner may
 * set them. One that is missing is made with the password of the URL; of one that is there the password and what limits
 * it has are left alone. Runs at the same time do not disturb each other. Throws an Error with the remedy where the
 * owner may not do it.
 */
export async function ensureLogin(owner: Owner, { url, schema }: ServiceLogin): Promise<"made" | "found"> {
  const name = loginName(url);
  const outcome = await ensureMember(owner, url, `${schema}_rw`);
  try {
    await limitStatements(owner, name, schema);
  } catch (error) {
    // Then the login does so itself when it signs in.
    if (codeOf(error) !== insufficientPrivilege) throw error;
  }
  return outcome;
}

/**
 * Makes sure that the login is there and reads all of these schemas, whose tables an upgrade may have added to. A
 * password and an owner without rights are treated as `ensureLogin` does.
 */
export async function ensureBackupLogin(
  owner: Owner,
  url: string,
  schemas: readonly Schema[],
): Promise<"made" | "found"> {
  const found = await owner.query("select from pg_roles where rolname = $1", [backupGroup]);
  if (found.rowCount === 0) {
    await unlessThere(owner, "create role %1$I nologin", [backupGroup], remedy(loginName(url), backupGroup));
  }
  for (const schema of schemas) {
    await execute(owner, "grant usage on schema %1$I to %2$I", [schema, backupGroup]);
    await execute(owner, "grant select on all tables in schema %1$I to %2$I", [schema, backupGroup]);
    await execute(owner, "grant select on all sequences in schema %1$I to %2$I", [schema, backupGroup]);
  }
  return ensureMember(owner, url, backupGroup);
}

async function ensureMember(owner: Owner, url: string, group: string): Promise<"made" | "found"> {
  const name = loginName(url);
  const found = await owner.query<{ rolcanlogin: boolean }>("select rolcanlogin from pg_roles where rolname = $1", [
    name,
  ]);
  if (found.rows[0]?.rolcanlogin === false) throw new Error(`the role "${name}" is there, but it may not sign in`);
  const isMissing = found.rows.length === 0;
  if (isMissing) {
    const { password } = clientOf(url);
    const words = password ? " password %2$L" : "";
    const verifier = password ? passwordVerifier(password) : "";
    await unlessThere(owner, `create role %1$I login${words}`, [name, verifier], remedy(name, group));
  }
  const member = await owner.query("select where pg_has_role($1, $2, 'USAGE')", [name, group]);
  if (member.rowCount === 0) await unlessThere(owner, "grant %2$I to %1$I", [name, group], remedy(name, group));
  return isMissing ? "made" : "found";
}

/** Gives a login the limits of time that it has not. */
async function limitStatements(by: Owner, name: string, schema: Schema): Promise<void> {
  const { rows } = await by.query<{ settings: string[] | null }>(
    "select rolconfig as settings from pg_roles where rolname = $1",
    [name],
  );
  const has = (setting: string): boolean => rows[0]?.settings?.some((one) => one.startsWith(`${setting}=`)) ?? false;
  for (const [setting, limit] of Object.entries(limitsOf[schema]).filter(([one]) => !has(one))) {
    try {
      await execute(by, "alter role %1$I set %2$I = %3$L", [name, setting, limit]);
    } catch (error) {
      // Somebody else sets it at this instant.
      if (codeOf(error) !== uniqueViolation && codeOf(error) !== concurrentUpdate) throw error;
    }
  }
}

const codeOf = (error: unknown): string | undefined => (error instanceof pg.DatabaseError ? error.code : undefined);

const remedy = (name: string, group: string): string =>
  `the owner of the database may not make the login "${name}" a member of "${group}": have a superuser make ` +
  `the login, and run: GRANT "${group}" TO "${name}"`;

/** Gives a login that exists the password of its URL. */
export async function replacePassword(owner: Owner, url: string): Promise<void> {
  const verifier = passwordVerifier(clientOf(url).password ?? "");
  await execute(owner, "alter role %1$I password %2$L", [loginName(url), verifier]);
}

/**
 * Signs in as the service will, looks whether it reaches its schema, and sets what limits of time the owner could not:
 * the problem in words, and whether PostgreSQL itself has told it, or could not be reached from here. Undefined when
 * all is well.
 */
export async function signInProblem({ url, schema }: ServiceLogin): Promise<SignInProblem | undefined> {
  try {
    await using client = await connect(url);
    const reaches = "select where to_regnamespace($1) is not null and has_schema_privilege($1, 'USAGE')";
    if ((await client.query(reaches, [schema])).rowCount === 1) {
      await limitStatements(client, loginName(url), schema);
      return undefined;
    }
    const words = `"${loginName(url)}" finds no schema ${schema} that it may use in the database "${client.database}"`;
    return { words, isCertain: true };
  } catch (error) {
    const isRefused = error instanceof pg.DatabaseError;
    const hint = isRefused && error.code === "28P01" ? "; the password of a login that exists is never changed" : "";
    return { words: `${errorWords(error)}${hint}`, isCertain: isRefused };
  }
}

export type SignInProblem = { words: string; isCertain: boolean };

/** What an error of PostgreSQL, or of the way to it, says. */
export function errorWords(error: unknown): string {
  // One for every address that a name stands for.
  if (error instanceof AggregateError) return [...new Set(error.errors.map(errorWords))].join(", ");
  return error instanceof Error ? error.message : String(error);
}

/** Runs a statement that PostgreSQL itself has put together from names and texts, so that none can be anything else. */
async function execute(owner: Owner, template: string, values: string[]): Promise<void> {
  const statement = await owner.query<{ text: string }>("select format($1, variadic $2::text[]) as text", [
    template,
    values,
  ]);
  await owner.query(statement.rows[0]?.text ?? "");
}

/** The same, where somebody else may do it at this instant. */
async function unlessThere(owner: Owner, template: string, values: string[], refused: string): Promise<void> {
  try {
    await execute(owner, template, values);
  } catch (error) {
    const code = codeOf(error);
    if (code === insufficientPrivilege) throw new Error(refused, { cause: error });
    if (code !== duplicateObject && code !== uniqueViolation) throw error;
  }
}
