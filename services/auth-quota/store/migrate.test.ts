import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import pg from "pg";
import { createLog } from "#shared/process/log.ts";
import { startStores, type Stores } from "#shared/testing/stores.ts";
import { migrate } from "./migrate.ts";

let stores: Stores<{ postgres: true }>;
before(async () => {
  stores = await startStores({ postgres: true });
});
after(() => stores[Symbol.asyncDispose]());

const log = createLog("test", "silent");

async function connect(url: string): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

test("migrations that run at the same time, on one database and on another, all succeed once", async () => {
  const [one, other] = [await stores.postgres.createDatabase(), await stores.postgres.createDatabase()];
  await Promise.all([migrate(one, log), migrate(one, log), migrate(other, log), migrate(other, log)]);
  await migrate(one, log);
  await using client = await connect(one);
  const { rows } = await client.query("select count(*)::int as count from auth_quota.migration");
  assert.deepEqual(rows, [{ count: 16 }]);
});

test("the service's role reads and writes keys, and can neither delete them nor change what a key is", async () => {
  const url = await stores.postgres.createDatabase();
  await migrate(url, log);
  await using client = await connect(url);
  await client.query("set role auth_quota_rw");
  await client.query("insert into auth_quota.account (account_id, name) values ('acct_1', 'one')");
  await client.query(
    `insert into auth_quota.key (key_id, account_id, key_hash, secret_prefix, name)
      values ('key_1', 'acct_1', sha256('x'), 'sk-x', '')`,
  );
  await client.query("update auth_quota.key set status = 'stopped', version = version + 1");
  await client.query("update auth_quota.maintenance set is_maintenance = true, changed_at = now()");
  const forbidden = [
    "delete from auth_quota.key",
    "delete from auth_quota.account",
    "truncate auth_quota.key",
    "delete from auth_quota.maintenance",
    "insert into auth_quota.maintenance (is_only, is_maintenance) values (false, true)",
    "update auth_quota.maintenance set is_only = true",
    "update auth_quota.key set key_hash = sha256('y')",
    "update auth_quota.key set account_id = 'acct_2'",
    "update auth_quota.applied_catalog set author = 'another'",
    "delete from auth_quota.applied_catalog",
    "update auth_quota.catalog_price set prices = ''",
    "delete from auth_quota.catalog_price",
    "drop table auth_quota.key",
    "alter table auth_quota.key add column extra text",
    "create table auth_quota.other (id int)",
    "select * from auth_quota.migration",
  ];
  for (const statement of forbidden) {
    // 42501: insufficient privilege.
    await assert.rejects(client.query(statement), { code: "42501" }, statement);
  }
});
