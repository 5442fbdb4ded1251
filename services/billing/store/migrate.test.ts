import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { readMessage } from "../records/read-event.ts";
import { encodeBatch, encodeEvent, makeEvent } from "../testing/events.ts";
import { createLedger } from "../testing/ledger.ts";
import { planBatch } from "../records/plan.ts";
import { createLedgerDays } from "./days.ts";
import { migrate } from "./migrate.ts";
import { postBatch } from "./post.ts";

const log = createLog("test", "silent");
const stores = await startStores({ postgres: true });
after(() => stores[Symbol.asyncDispose]());
const { postgres } = stores;

test("migrations that run at the same time, in one database and in another of the cluster, all succeed", async () => {
  const first = await postgres.createDatabase();
  const second = await postgres.createDatabase();
  await Promise.all([first, first, second, second].map((url) => migrate(url, log)));
  await migrate(first, log);
  const done = await query(first, "SELECT name FROM billing.migration");
  assert.deepEqual(
    done.rows.map(({ name }) => name),
    [
      "0001_ledger",
      "0002_audit",
      "0003_console",
      "0004_tool_units",
      "0005_ledger_epoch",
      "0006_daily_close",
      "0007_refunded",
      "0008_sums",
      "0009_bounds",
      "0010_replicas",
      "0011_archive",
      "0012_forget_settled",
      "0013_business",
      "0014_one-fence",
      "0015_forget-reports",
    ],
  );
});

test("ledger_line and its partitions are append-only, for the service and for the owner", async () => {
  await using ledger = await createLedger(postgres);
  const { events } = readMessage(encodeBatch([encodeEvent(makeEvent())]), 1, Date.now());
  await createLedgerDays(ledger.pool).ensure(events.map(({ day }) => day));
  await postBatch(ledger.pool, events, (booked) => planBatch(events, booked, Date.now()));
  const partition = `billing.ledger_line_${events[0]?.day.replaceAll("-", "_")}`;

  for (const table of ["billing.ledger_line", partition]) {
    for (const change of [`UPDATE ${table} SET amount_nanos = 0`, `DELETE FROM ${table}`, `TRUNCATE ${table}`]) {
      await assert.rejects(query(ledger.ownerUrl, change), /the ledger is append-only/, `owner: ${change}`);
      await assert.rejects(query(ledger.url, change), /permission denied/, `service: ${change}`);
    }
  }
  const { rows } = await query(ledger.ownerUrl, "SELECT count(*)::int AS lines FROM billing.ledger_line");
  assert.equal(rows[0].lines, 1);
});

test("the role of the service has no more rights than its work needs", async () => {
  await using ledger = await createLedger(postgres);
  const refused = [
    "DELETE FROM billing.account",
    "DELETE FROM billing.key_spending",
    "UPDATE billing.payment SET account_id = 'other'",
    "DELETE FROM billing.correction",
    "DELETE FROM billing.usage_quarantine",
    "UPDATE billing.usage_quarantine SET reason = ''",
    "DELETE FROM billing.session_progress",
    "UPDATE billing.voucher_batch SET amount_nanos = 1",
    "DELETE FROM billing.voucher_batch",
    "UPDATE billing.voucher SET code_hash = ''",
    "UPDATE billing.voucher SET batch_id = 'other'",
    "DELETE FROM billing.voucher",
    "DELETE FROM billing.quarantine_booked",
    "UPDATE billing.quarantine_booked SET booked_at = now()",
    "UPDATE billing.report SET content = ''",
    "DELETE FROM billing.report",
    "DELETE FROM billing.day_close_line",
    "DELETE FROM billing.day_close",
    "UPDATE billing.archived_day SET lines = 0",
    "DELETE FROM billing.archived_day",
    "CREATE TABLE billing.mine (id int)",
    "ALTER TABLE billing.ledger_line DISABLE TRIGGER ALL",
    "DROP TABLE billing.account",
  ];
  for (const statement of refused) {
    await assert.rejects(query(ledger.url, statement), /permission denied|must be owner/, statement);
  }
});

test("a partition is made for days up to 60 back and 1 ahead, by many at once, and refused beyond", async () => {
  await using ledger = await createLedger(postgres);
  const dayAt = (offset: number): string => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
  const many = Array.from({ length: 8 }, () => createLedgerDays(ledger.pool).ensure([dayAt(0), dayAt(-60), dayAt(1)]));
  for (const refused of await Promise.all(many)) assert.deepEqual([...refused], []);
  const days = createLedgerDays(ledger.pool);
  assert.deepEqual([...(await days.ensure([dayAt(-61), dayAt(0), dayAt(2)]))], [dayAt(-61), dayAt(2)]);
});
