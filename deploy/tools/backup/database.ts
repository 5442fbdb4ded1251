import { execFile } from "node:child_process";
import { promisify } from "node:util";
import pg from "pg";
import { ServiceError } from "#shared/process/errors.ts";
import { backupGroup, schemas } from "../migrate/names.ts";

const run = promisify(execFile);

const leaveAttempts = 20;

/** What PostgreSQL's own programs take from their environment; a password in arguments could be read by others. */
function environmentOf(url: string): NodeJS.ProcessEnv {
  const { hostname, port, username, password, searchParams } = new URL(url);
  return {
    ...process.env,
    PGHOST: hostname.replace(/^\[(.+)\]$/, "$1"),
    PGPORT: port || "5432",
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: nameOf(url) || decodeURIComponent(username),
    ...(searchParams.has("sslmode") && { PGSSLMODE: searchParams.get("sslmode") ?? "" }),
    ...(searchParams.has("sslrootcert") && { PGSSLROOTCERT: searchParams.get("sslrootcert") ?? "" }),
  };
}

const nameOf = (url: string): string => decodeURIComponent(new URL(url).pathname.slice(1));

/** The same server and login, another database. */
const inDatabase = (url: string, name: string): string =>
  Object.assign(new URL(url), { pathname: `/${encodeURIComponent(name)}` }).href;

async function runTool(tool: string, words: string[], url: string): Promise<void> {
  try {
    await run(tool, words, { env: environmentOf(url), maxBuffer: 16 * 2 ** 20 });
  } catch (error) {
    const { code, stderr = "" } = error as { code?: unknown; stderr?: string };
    if (code === "ENOENT") {
      throw new ServiceError("failed_precondition", `${tool} is not in PATH: install PostgreSQL's client programs`);
    }
    throw new ServiceError("unavailable", `${tool} failed: ${stderr.trim().split("\n").at(0) ?? ""}`, error);
  }
}

/** Runs statements on a connection of its own; gives the rows of the last. */
async function queryAs<Row extends pg.QueryResultRow>(url: string, statements: readonly string[]): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    let rows: Row[] = [];
    for (const statement of statements) ({ rows } = await client.query<Row>(statement));
    return rows;
  } finally {
    await client.end();
  }
}

/** Writes all schemas as they are at one moment. */
export function dumpDatabase(url: string, file: string): Promise<void> {
  const chosen = schemas.flatMap((schema) => ["-n", schema]);
  return runTool("pg_dump", ["--format=custom", "--no-owner", "--no-password", "-f", file, ...chosen], url);
}

/** Loads a dump into a new database beside that of the URL, with the API closed; returns its name. */
export async function loadBeside(url: string, file: string, stamp: string): Promise<string> {
  const name = `${nameOf(url)}_restored_${stamp}`;
  // The dump grants them their rights, and a new server has none of them.
  const roles = [...schemas.map((schema) => `${schema}_rw`), backupGroup];
  await queryAs(inDatabase(url, "postgres"), [
    ...roles.map(
      (role) => `DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '${role}') THEN CREATE ROLE ${role} NOLOGIN; END IF;
      END $$`,
    ),
    `CREATE DATABASE ${pg.escapeIdentifier(name)}`,
  ]);
  const own = inDatabase(url, name);
  const whole = ["--exit-on-error", "--single-transaction", "--no-owner", "--no-password"];
  await runTool("pg_restore", [...whole, "-d", name, file], own);
  // What the dump closed stays as it was in it, once it is opened again.
  await queryAs(own, ["UPDATE auth_quota.maintenance SET is_maintenance = true, changed_at = now()", "ANALYZE"]);
  return name;
}

/**
 * Puts a database in the place of that of the URL, which is kept under another name: returned, or undefined where there
 * was none. Whoever is connected to it is disconnected.
 */
export async function takePlace(url: string, name: string, stamp: string): Promise<string | undefined> {
  const server = inDatabase(url, "postgres");
  const [own, other] = [nameOf(url), `${nameOf(url)}_before_${stamp}`];
  const [former, current, next] = [own, other, name].map((word) => pg.escapeIdentifier(word)) as [
    string,
    string,
    string,
  ];
  const isThere = `SELECT FROM pg_database WHERE datname = ${pg.escapeLiteral(own)}`;
  const hasFormer = (await queryAs(server, [isThere])).length > 0;
  if (hasFormer) {
    const leave = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${pg.escapeLiteral(own)}`;
    await queryAs(server, [`ALTER DATABASE ${former} ALLOW_CONNECTIONS false`]);
    await untilAlone(() => queryAs(server, [leave, `ALTER DATABASE ${former} RENAME TO ${current}`]));
  }
  await queryAs(server, [`ALTER DATABASE ${next} RENAME TO ${former}`]);
  return hasFormer ? other : undefined;
}

const objectInUse = "55006";

// A session that was told to end is there for a moment longer.
async function untilAlone(work: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await work();
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== objectInUse || attempt === leaveAttempts) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100 * attempt));
    }
  }
}

/** The newest epoch of the ledger, and whether everything is booked again that it lacked. */
export async function readLedgerEpoch(url: string): Promise<{ epoch: number; isHealed: boolean }> {
  const [row] = await queryAs<{ epoch: number; isHealed: boolean }>(url, [
    `SELECT epoch, healed_at IS NOT NULL AS "isHealed" FROM billing.ledger_epoch ORDER BY epoch DESC LIMIT 1`,
  ]);
  if (!row) throw new ServiceError("failed_precondition", "the ledger has no epoch: run `migrate`");
  return row;
}
