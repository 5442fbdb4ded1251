import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { createConsoleDatabase } from "../testing/console.ts";
import { insertAudit } from "./audit.ts";
import { migrate } from "./migrate.ts";
import { insertPerson } from "./people.ts";

const log = createLog("test", "silent");
const stores = await startStores({ postgres: true });
after(() => stores[Symbol.asyncDispose]());
const { postgres } = stores;

test("migrations that run at the same time, in one database and in another of the cluster, all succeed", async () => {
  const first = await postgres.createDatabase();
  const second = await postgres.createDatabase();
  await Promise.all([first, first, second, second].map((url) => migrate(url, log)));
  await migrate(first, log);
  const done = await query(first, "SELECT name FROM console.migration");
  assert.deepEqual(
    done.rows.map(({ name }) => name),
    [
      "0001_console",
      "0002_top-ups",
      "0003_identities",
      "0004_reversals",
      "0005_alerts",
      "0006_auto-top-ups",
      "0007_playground-keys",
      "0008_webhook-secrets",
      "0009_roles",
      "0010_role-names",
      "0011_forget_links",
      "0012_todays-role-names",
      "0013_only-todays-role-names",
      "0014_domains",
      "0015_told-payments",
    ],
  );
});

test("the audit log is append-only, for the service and for the owner", async () => {
  await using database = await createConsoleDatabase(postgres);
  await insertAudit(database.pool, {
    operationId: "00000000-0000-4000-8000-000000000000",
    outcome: "done",
    personId: null,
    email: "a@example.org",
    address: "::1",
    action: "sign-in",
    accountId: null,
    target: "x",
    before: null,
    after: null,
  });
  const changes = [
    "UPDATE console.audit_entry SET email = ''",
    "DELETE FROM console.audit_entry",
    "TRUNCATE console.audit_entry",
  ];
  for (const change of changes) {
    await assert.rejects(query(database.ownerUrl, change), /the audit log is append-only/, `owner: ${change}`);
    await assert.rejects(query(database.url, change), /permission denied/, `service: ${change}`);
  }
  const rows = await database.sql("SELECT email FROM console.audit_entry");
  assert.deepEqual(rows, [{ email: "a@example.org" }]);
});

test("the role of the service has no more rights than its work needs", async () => {
  await using database = await createConsoleDatabase(postgres);
  const refused = [
    "ALTER TABLE console.audit_entry DISABLE TRIGGER ALL",
    "DROP TABLE console.audit_entry",
    "CREATE TABLE console.mine (id int)",
    `INSERT INTO console.audit_entry (at, operation_id, outcome, email, address, action, target)
       VALUES ('2020-01-01', gen_random_uuid(), 'done', '', '', '', '')`,
    "DELETE FROM console.person",
    "UPDATE console.person SET email = 'other@example.org'",
    "UPDATE console.session SET person_id = person_id",
    "UPDATE console.session SET created_at = now()",
    "UPDATE console.session SET is_complete = true",
    "UPDATE console.membership SET account_id = 'other'",
    "UPDATE console.invitation SET role = 'owner'",
    "UPDATE console.invitation SET expires_at = now() + interval '1 year'",
    "DELETE FROM console.invitation",
    "DELETE FROM console.decoy",
    "DELETE FROM console.bootstrap_token",
    "UPDATE console.recovery_code SET code_hash = code_hash",
    "UPDATE console.identity SET person_id = person_id",
    "UPDATE console.identity SET subject = 'other'",
    "UPDATE console.oidc_attempt SET browser_hash = browser_hash",
    "UPDATE console.session SET issuer = 'https://other.example'",
    "UPDATE console.password_reset SET person_id = person_id",
    "UPDATE console.password_reset SET expires_at = now() + interval '1 year'",
    "DELETE FROM console.password_reset",
    "UPDATE console.top_up SET account_id = 'other'",
    "UPDATE console.top_up SET amount_nanos = 1",
    "UPDATE console.top_up SET person_id = person_id",
    "DELETE FROM console.top_up",
    "UPDATE console.webhook SET url = 'https://other.example'",
    "UPDATE console.webhook SET url = ''",
    "UPDATE console.delivery SET recipient = 'other@example.org'",
    "UPDATE console.delivery SET body = '{}'",
    "UPDATE console.domain SET account_id = 'other'",
    "UPDATE console.domain SET domain = 'other.example'",
    "UPDATE console.domain SET token = ''",
    "SELECT FROM console.migration",
  ];
  for (const statement of refused) {
    await assert.rejects(query(database.url, statement), /permission denied|must be owner/, statement);
  }
});

test("an address to sign in with is one person's, in any case", async () => {
  await using database = await createConsoleDatabase(postgres);
  const person = { email: "Ann@Example.org", passwordHash: "x", isOperator: false };
  assert.ok(await insertPerson(database.pool, person));
  assert.equal(await insertPerson(database.pool, { ...person, email: "ann@example.ORG" }), undefined);
});
