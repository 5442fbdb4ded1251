import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { query } from "#shared/testing/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { repository, run } from "../checks/run.ts";
import { connect, ensureLogin } from "./logins.ts";
import { runMigrate } from "./run.ts";

const stores = await startStores({ postgres: true });
after(() => stores[Symbol.asyncDispose]());
const { postgres } = stores;

const groups = ["auth_quota_rw", "billing_rw", "video_task_rw", "console_rw", "backup_ro"];

/** Runs it as the image would, without the process around it. */
async function migrate(environment: Record<string, string>) {
  const lines: string[] = [];
  const faults: string[] = [];
  const output = { lines: { write: (line: string) => lines.push(line) }, fault: (text: string) => faults.push(text) };
  const code = await runMigrate(environment, output);
  return { code, lines: lines.join(""), fault: faults.join("\n") };
}

/** The URL of a database for another login; names and passwords are encoded as URLs want them. */
function loginUrl(url: string, name: string, password: string): string {
  const own = new URL(url);
  own.username = encodeURIComponent(name);
  own.password = encodeURIComponent(password);
  return own.href;
}

/** A new name for each test: logins belong to the whole server. */
const newName = (): string => `login_${randomBytes(4).toString("hex")}`;

/** The groups that a login is a member of. */
async function groupsOf(name: string): Promise<string[]> {
  const { rows } = await query(
    postgres.url,
    `select r.rolname as name from pg_auth_members m join pg_roles r on r.oid = m.roleid
     join pg_roles l on l.oid = m.member where l.rolname = '${name}' order by 1`,
  );
  return (rows as { name: string }[]).map((row) => row.name);
}

/** A login that owns a database of its own; `words` are what else it may. */
async function ownedDatabase(words: string): Promise<string> {
  const url = await postgres.createDatabase();
  const owner = newName();
  await query(url, `create role ${owner} login password 'secret' ${words}`);
  await query(url, `alter database ${new URL(url).pathname.slice(1)} owner to ${owner}`);
  return loginUrl(url, owner, "secret");
}

/** The group roles, as an administrator would make them beforehand. */
async function makeGroups(): Promise<void> {
  for (const group of groups) {
    const found = await query(postgres.url, `select 1 from pg_roles where rolname = '${group}'`);
    if (found.rows.length === 0) await query(postgres.url, `create role ${group} nologin`);
  }
}

test("an owner who may make no roles migrates where groups and logins are there, and says what it may not", async () => {
  await makeGroups();
  const owner = await ownedDatabase("nocreaterole");
  const there = newName();
  await query(postgres.url, `create role ${there} login password 'kept' in role billing_rw`);
  const BILLING_DATABASE_URL = loginUrl(owner, there, "kept");
  assert.deepEqual(await migrate({ DATABASE_OWNER_URL: owner, LOG_LEVEL: "warn", BILLING_DATABASE_URL }), {
    code: 0,
    lines: "",
    fault: "",
  });
  // The owner may not; the login itself may.
  assert.ok((await settingsOf(there)).includes("statement_timeout=30s"));
  const missing = newName();
  const refused = await migrate({
    DATABASE_OWNER_URL: owner,
    BILLING_DATABASE_URL: loginUrl(owner, missing, "hidden"),
  });
  assert.equal(refused.code, 1);
  assert.match(refused.fault, new RegExp(`may not make the login "${missing}".*GRANT "billing_rw" TO "${missing}"$`));
  assert.doesNotMatch(refused.fault + refused.lines, /hidden/);
});

test("stolen: a service's PostgreSQL login: four schemas, four logins that can do their own work only; a second run changes nothing", async () => {
  const owner = await ownedDatabase("createrole");
  const suffix = newName();
  // Whatever may stand in a name or a password stays what it is.
  const names = [`a'b"c ${suffix}`, `Großer ${suffix}`, `x$1%I\\ ${suffix}`, `; drop role ${suffix} --`];
  const passwords = ["it's", 'p@ss/wo"rd?#', "100%\\$$ x", "pässwörd ½"];
  const [authQuota, billing, videoTask, site] = names.map((name, index) =>
    loginUrl(owner, name, passwords[index] as string),
  ) as [string, string, string, string];
  const environment = {
    DATABASE_OWNER_URL: owner,
    AUTH_QUOTA_DATABASE_URL: authQuota,
    BILLING_DATABASE_URL: billing,
    VIDEO_TASK_DATABASE_URL: videoTask,
    CONSOLE_DATABASE_URL: site,
    BACKUP_DATABASE_URL: loginUrl(owner, newName(), "reads"),
  };
  // As an administrator of a managed server may: groups that others own must be granted to the owner.
  for (const group of groups) {
    await query(postgres.url, `grant ${group} to ${decodeURIComponent(new URL(owner).username)} with admin option`);
  }
  const first = await migrate(environment);
  assert.deepEqual([first.code, first.fault], [0, ""]);
  for (const password of passwords) assert.ok(!first.lines.includes(password));
  await query(authQuota, "select from auth_quota.account");
  await query(billing, "select from billing.account");
  await query(videoTask, "select from video_task.task");
  await query(site, "select from console.person");
  await assert.rejects(query(authQuota, "select from billing.account"), /permission denied/);
  const backup = environment.BACKUP_DATABASE_URL;
  await query(backup, "select from console.person, billing.account, auth_quota.account, video_task.task");
  await assert.rejects(query(backup, "delete from auth_quota.account"), /permission denied/);
  const second = await migrate(environment);
  assert.deepEqual([second.code, second.fault], [0, ""]);
  assert.equal(second.lines.match(/"outcome":"found"/g)?.length, 5);
  assert.equal(second.lines.match(/"migrations":\[\]/g)?.length, 4);
});

/** What a login has set for itself, as the superuser sees it. */
async function settingsOf(login: string): Promise<string[]> {
  const { rows } = await query(
    postgres.url,
    `select unnest(rolconfig) as one from pg_roles where rolname = '${login}'`,
  );
  return rows.map(({ one }) => String(one)).toSorted((a, b) => (a < b ? -1 : 1));
}

test("a login gets limits of time, which every way to PostgreSQL has, and keeps those that somebody set", async () => {
  const url = await postgres.createDatabase();
  const [made, found, ownLimit] = [newName(), newName(), newName()];
  await query(url, `create role ${found} login password 'kept'`);
  await query(
    url,
    `create role ${ownLimit} login password 'kept'; alter role ${ownLimit} set statement_timeout = '1min'`,
  );
  const environment = {
    DATABASE_OWNER_URL: url,
    AUTH_QUOTA_DATABASE_URL: loginUrl(url, made, "secret"),
    BILLING_DATABASE_URL: loginUrl(url, found, "kept"),
    CONSOLE_DATABASE_URL: loginUrl(url, ownLimit, "kept"),
  };
  for (const time of [1, 2]) assert.equal((await migrate(environment)).code, 0, `run ${time}`);
  const idle = "idle_in_transaction_session_timeout=30s";
  assert.deepEqual(await settingsOf(made), [idle, "statement_timeout=5s"]);
  assert.deepEqual(await settingsOf(found), [idle, "statement_timeout=30s"]);
  assert.deepEqual(await settingsOf(ownLimit), [idle, "statement_timeout=1min"]);
  const { rows } = await query(environment.AUTH_QUOTA_DATABASE_URL, "show statement_timeout");
  assert.deepEqual(rows, [{ statement_timeout: "5s" }]);
});

test("runs at the same time, in one database and in another of the server, all succeed", async () => {
  const [first, second] = [await postgres.createDatabase(), await postgres.createDatabase()];
  const name = newName();
  const all = [first, first, second, second].map((url) =>
    migrate({ DATABASE_OWNER_URL: url, VIDEO_TASK_DATABASE_URL: loginUrl(url, name, "secret") }),
  );
  for (const { code, fault } of await Promise.all(all)) assert.deepEqual([code, fault], [0, ""]);
  assert.deepEqual(await groupsOf(name), ["video_task_rw"]);
  assert.ok((await settingsOf(name)).includes("statement_timeout=30s"));
});

test("a login that somebody else makes at this very instant is found", async () => {
  const url = await postgres.createDatabase();
  assert.equal((await migrate({ DATABASE_OWNER_URL: url })).code, 0);
  await using owner = await connect(url);
  await using other = await connect(url);
  const name = newName();
  await other.query("begin");
  await other.query(`create role ${name} login password 'secret'`);
  const ensured = ensureLogin(owner, { url: loginUrl(url, name, "secret"), schema: "billing" });
  await until("the second waits for the first", async () => {
    const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    return (await other.query(waiting)).rowCount === 1;
  });
  await other.query("commit");
  await ensured;
  assert.deepEqual(await groupsOf(name), ["billing_rw"]);
});

test("a login that exists keeps its password: another one in the URL is refused in words", async () => {
  const owner = await postgres.createDatabase();
  const name = newName();
  await query(owner, `create role ${name} login password 'kept'`);
  const CONSOLE_DATABASE_URL = loginUrl(owner, name, "another");
  const outcome = await migrate({ DATABASE_OWNER_URL: owner, CONSOLE_DATABASE_URL });
  assert.equal(outcome.code, 1);
  assert.match(outcome.fault, new RegExp(`^console: password authentication failed for user "${name}"; the password`));
  assert.match(outcome.fault, /is never changed$/);
  assert.doesNotMatch(outcome.fault + outcome.lines, /another/);
  await query(loginUrl(owner, name, "kept"), "select from console.person");
});

test("a URL of another database, and the name of a group in place of a login, are told", async () => {
  const owner = await postgres.createDatabase();
  const elsewhere = loginUrl(await postgres.createDatabase(), newName(), "secret");
  const other = await migrate({ DATABASE_OWNER_URL: owner, BILLING_DATABASE_URL: elsewhere });
  assert.equal(other.code, 1);
  assert.match(other.fault, /^billing: "login_\w+" finds no schema billing that it may use in the database "d\w+"$/);
  const asGroup = loginUrl(owner, "billing_rw", "secret");
  const group = await migrate({ DATABASE_OWNER_URL: owner, BILLING_DATABASE_URL: asGroup });
  assert.deepEqual([group.code, group.fault], [1, 'the role "billing_rw" is there, but it may not sign in']);
});

test("a service's way to PostgreSQL that is not open here is no reason to fail", async () => {
  const owner = await postgres.createDatabase();
  const elsewhere = new URL(loginUrl(owner, newName(), "secret"));
  elsewhere.port = "1";
  const { code, lines } = await migrate({ DATABASE_OWNER_URL: owner, BILLING_DATABASE_URL: elsewhere.href });
  assert.equal(code, 0);
  assert.match(lines, /"level":"warn".*billing: its login could not be tried from here: connect ECONNREFUSED/);
});

test("what cannot work is exit code 1 or 2, told in one text without a secret", async () => {
  const away = await migrate({ DATABASE_OWNER_URL: "postgres://owner:hidden@127.0.0.1:1/relay" });
  assert.deepEqual([away.code, away.fault], [1, "connect ECONNREFUSED 127.0.0.1:1"]);
  const nothing = await migrate({});
  assert.equal(nothing.code, 2);
  assert.match(nothing.fault, /DATABASE_OWNER_URL/);
  const wrong = await migrate({
    DATABASE_OWNER_URL: "postgres://owner:hid/den@localhost/relay",
    BILLING_DATABASE_URL: "mysql://user:hidden@localhost/relay",
    CONSOLE_DATABASE_URL: "postgres://localhost/relay?password=hidden",
  });
  assert.equal(wrong.code, 2);
  assert.equal(
    wrong.fault,
    "configuration is not usable:\n" +
      "  DATABASE_OWNER_URL must be such as postgres://user:password@host:5432/database; " +
      "characters such as / and @ in a password are percent-encoded\n" +
      "  BILLING_DATABASE_URL must be such as postgres://user:password@host:5432/database\n" +
      "  CONSOLE_DATABASE_URL must be such as postgres://user:password@host:5432/database; it names no user",
  );
});

test("the command of the image ends with the exit code, its log on standard output and the fault on the other", async () => {
  const entry = "deploy/image/main.ts";
  const without = await run("env", ["-i", process.execPath, entry, "migrate"], repository);
  assert.equal(without.code, 2);
  assert.match(
    without.errors,
    /^migrate: configuration is not usable:\n {2}must have required property 'DATABASE_OWNER_URL'\n$/,
  );
  const given = `DATABASE_OWNER_URL=${await postgres.createDatabase()}`;
  const done = await run("env", ["-i", given, process.execPath, entry, "migrate"], repository);
  assert.deepEqual([done.code, done.errors], [0, ""]);
  assert.match(done.output, /"service":"migrate".*"everything is up to date"/);
});
