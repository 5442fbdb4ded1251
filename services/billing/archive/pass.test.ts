import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { v7 } from "uuid";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { dayMs } from "#shared/process/clock.ts";
import { isSignedBy } from "#shared/money/report.ts";
import { query } from "#shared/testing/postgres.ts";
import { findWrongSums } from "../store/reconcile-books.ts";
import { findHindrance } from "../store/archive-days.ts";
import { archiveColumns } from "../store/archive-lines.ts";
import { readLedger, startLedger } from "../testing/ledger.ts";
import { keepDays, oldDay, oldMs, privateKey, publicKey, startOldApp } from "../testing/old-day.ts";
import { openFolder } from "./folder.ts";
import { readManifest } from "./manifest.ts";
import { createArchivePass } from "./pass.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
let folders: string;
before(async () => {
  server = await startLedger();
  folders = await mkdtemp(join(tmpdir(), "archive-test-"));
});
after(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folders, { recursive: true });
});

const log = createLog("test", "error");

/** A closed day with lines of every kind, and an archive for it. */
async function startArchive() {
  const folder = await mkdtemp(join(folders, "place-"));
  const place = openFolder(folder);
  const app = await startOldApp(server.postgres, { place });
  const { pool, ownerUrl } = app.ledger;
  const call = v7({ msecs: oldMs - 1 });
  await app.billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId: "p", note: 'a\n"b" \\N 💶' });
  await app.book({ rid: call, kind: RecordKind.PROVISIONAL, outputTokens: 1n }, { accountId: "Ärger".slice(1) });
  await app.book({ rid: call }, { accountId: "a_2", keyId: "k_2", upstreamCostNanos: 7n }, { accountId: "A-1" });
  await app.billing.refund({ accountId: "acct_test", rid: call, amountNanos: 100n, refundId: "r", reason: "r" });
  await app.billing.correct({ accountId: "a_2", amountNanos: -7n, correctionId: "c", reason: "why" });
  const told: number[] = [];
  const overdue = { set: (days: number) => void told.push(days) };
  const deps = { pool, place, signingKey: privateKey, clock: { nowMs: () => Date.now() }, log, keepDays };
  const pass = createArchivePass(deps, { overdue, stop: new AbortController().signal });
  const lines = async (): Promise<string[]> =>
    (await query(ownerUrl, "SELECT l::text AS line FROM billing.ledger_line AS l ORDER BY l")).rows.map(
      ({ line }) => line,
    );
  return { ...app, folder, call, told, pass, lines };
}

test("an old day is written, read back, signed and dropped; sums and balances stay", async () => {
  await using app = await startArchive();
  const { ownerUrl, pool } = app.ledger;
  await app.close();
  const whole = { from: timestampFromMs(oldMs - dayMs / 2), until: timestampFromMs(oldMs + dayMs / 2) };
  const figures = async () => ({
    funds: await app.billing.getFunds({ accountIds: ["acct_test"], keyIds: ["key_test"] }),
    statement: await app.billing.getStatement({ accountId: "acct_test", ...whole }),
    usage: await app.billing.queryUsage({ accountId: "acct_test", ...whole }),
  });
  const before = await figures();
  const { balances, spent } = await readLedger(ownerUrl);
  assert.equal((await app.lines()).length, 8);

  await app.pass();
  assert.deepEqual(app.told, [1, 0]);
  assert.deepEqual(await app.lines(), []);
  assert.deepEqual(await figures(), before);
  assert.deepEqual(await readLedger(ownerUrl), { lines: [], balances, spent, quarantine: [] });
  assert.deepEqual(await findWrongSums(pool, undefined), []);
  assert.deepEqual((await readdir(join(app.folder, oldDay))).toSorted(), ["lines-001.parquet", "manifest.json"]);
  const manifest = readManifest(await readFile(join(app.folder, oldDay, "manifest.json"), "utf8"));
  const pem = publicKey.export({ type: "spki", format: "pem" }).toString();
  assert.ok(isSignedBy(manifest.content, manifest.signature, pem));
  assert.partialDeepStrictEqual(JSON.parse(manifest.content.toString()), {
    day: oldDay,
    lines: "8",
    amount_nanos: String(5_000 - 400 - 400 - 400 - 400 + 100 - 7),
    accounts: 4,
  });

  await app.pass();
  assert.deepEqual(app.told, [1, 0, 0], "there is nothing left to do");
});

test("nothing happens twice on a day that has left, and what needs its lines says so", async () => {
  await using app = await startArchive();
  await app.close();
  await app.pass();
  const gone = { code: "failed_precondition", message: new RegExp(`${oldDay} .*restore-day ${oldDay}`) };
  const { accounts } = await app.book({ rid: app.call }, { rid: v7({ msecs: oldMs }) });
  assert.deepEqual(accounts, [], "a late copy and a late event are not booked");
  app.time.nowMs = oldMs;
  const late = await app.book({ rid: app.call });
  assert.deepEqual([late.accounts, late.rejects.length], [[], 1], "nor with a clock that is a hundred days late");
  app.time.nowMs = Date.now();
  const refund = { accountId: "acct_test", rid: app.call, amountNanos: 1n, refundId: "again", reason: "r" };
  await assert.rejects(app.billing.refund(refund), gone);
  const credit = { accountId: "acct_test", amountNanos: 5_000n, paymentId: "p", note: 'a\n"b" \\N 💶' };
  await assert.rejects(app.billing.credit(credit), gone);
  await assert.rejects(app.billing.getCall({ rid: app.call }), gone);
  await assert.rejects(app.billing.reconcile({ day: oldDay }), gone);
  await assert.rejects(app.billing.compareInvoice({ upstream: "demo", fromDay: oldDay, untilDay: "9999-01-01" }), {
    code: "invalid_argument",
  });
  const span = { fromDay: oldDay, untilDay: new Date(oldMs + dayMs).toISOString().slice(0, 10) };
  await assert.rejects(app.billing.compareInvoice({ upstream: "demo", ...span }), gone);
  await assert.rejects(Array.fromAsync(app.streams.exportLines(span)), gone);
  assert.deepEqual(await app.lines(), []);
});

test("a day is read back as it was, may be refunded from, and leaves again after a week", async () => {
  await using app = await startArchive();
  const { ownerUrl } = app.ledger;
  await app.close();
  const before = await app.lines();
  const restore = async () => (await Array.fromAsync(app.streams.restoreDay({ day: oldDay }))).at(-1);
  await assert.rejects(restore(), { code: "failed_precondition", message: /was not moved out/ });
  await app.pass();
  assert.partialDeepStrictEqual(await restore(), { restoredLines: 8n, lines: 8n, isDone: true });
  assert.deepEqual(await app.lines(), before);
  await assert.rejects(restore(), { code: "failed_precondition", message: /is in the ledger/ });
  const partition = `billing.ledger_line_${oldDay.replaceAll("-", "_")}`;
  await assert.rejects(query(ownerUrl, `DELETE FROM ${partition}`), /append-only/);

  const call = await app.billing.getCall({ rid: app.call });
  assert.deepEqual(
    call.lines.map(({ kind }) => kind),
    [LineKind.PROVISIONAL_CHARGE, LineKind.FINAL_ADJUSTMENT, LineKind.REFUND],
  );
  const refund = { accountId: "acct_test", rid: app.call, refundId: "rest", reason: "r" };
  assert.equal((await app.billing.refund(refund)).line?.amountNanos, 300n);
  const late = await app.book({ rid: v7({ msecs: oldMs }) });
  assert.deepEqual(late.accounts, [], "its day stays closed");

  app.told.length = 0;
  await app.pass();
  assert.deepEqual(app.told, [0], "it stays for a week");
  await query(ownerUrl, "UPDATE billing.archived_day SET restored_at = now() - interval '8 days'");
  await app.pass();
  assert.deepEqual(app.told.slice(1), [1, 0]);
  assert.equal((await app.lines()).length, 1, "the refund of today");
  assert.partialDeepStrictEqual(await restore(), { isDone: true });
});

test("a call is not refunded while a day is missing on which it may have been refunded before", async () => {
  await using app = await startArchive();
  const { ownerUrl } = app.ledger;
  await app.close();
  await app.pass();
  await Array.fromAsync(app.streams.restoreDay({ day: oldDay }));
  await query(ownerUrl, `INSERT INTO billing.closed_day (day) VALUES ('${oldDay}'::date + 1)`);
  const next = new Date(oldMs + dayMs).toISOString().slice(0, 10);
  const refund = { accountId: "acct_test", rid: app.call, refundId: "rest", reason: "r" };
  await assert.rejects(app.billing.refund(refund), { message: new RegExp(next) });
});

describe("a day stays in the ledger", () => {
  type App = Awaited<ReturnType<typeof startArchive>>;
  const spoil = (statement: string) => (app: App) => query(app.ledger.ownerUrl, statement);
  const cases: [string, RegExp | undefined, (app: App) => Promise<unknown>][] = [
    ["that is not closed", undefined, spoil("DELETE FROM billing.closed_day")],
    [
      "with a record in quarantine that nobody has settled",
      /quarantine/,
      ({ ledger, call }) =>
        query(
          ledger.ownerUrl,
          `INSERT INTO billing.usage_quarantine (reason, payload, payload_hash, rid) VALUES ('x', '', 'y',
             '${v7({ msecs: oldMs })}'), ('settled', '', 'z', '${call}')`,
        ),
    ],
    [
      "that is not summed up",
      /not summed up/,
      spoil(`INSERT INTO billing.unsummed_day VALUES ('${oldDay}', false, false)`),
    ],
    [
      "of which a line by hand is not on the stream",
      /not on the stream/,
      spoil(`INSERT INTO billing.funds_outbox VALUES ('a', gen_random_uuid(), '${oldDay}')`),
    ],
    [
      "that the daily close still needs",
      /daily close/,
      spoil(`ALTER TABLE billing.day_close DISABLE TRIGGER ALL; DELETE FROM billing.day_close`),
    ],
    [
      "whose lines are not those of its sums",
      undefined,
      spoil(`DROP TRIGGER append_only ON billing.ledger_line;
        UPDATE billing.ledger_line SET amount_nanos = amount_nanos - 1 WHERE kind = 4`),
    ],
  ];
  for (const [name, reason, change] of cases) {
    test(name, async () => {
      await using app = await startArchive();
      await app.close();
      await change(app);
      await app.pass();
      assert.deepEqual(app.told, [1]);
      assert.equal((await app.lines()).length, 8);
      assert.deepEqual(await readdir(app.folder), [], "nothing was written");
      if (reason) assert.match((await findHindrance(app.ledger.pool, oldDay)) ?? "", reason);
    });
  }
});

test("records in quarantine that a line of the day has settled stay settled", async () => {
  await using app = await startArchive();
  const { ownerUrl } = app.ledger;
  await query(
    ownerUrl,
    `INSERT INTO billing.usage_quarantine (reason, payload, payload_hash, rid)
     VALUES ('x', '', 'x', '${app.call}'), ('y', '', 'y', NULL)`,
  );
  await app.billing.correct({ accountId: "a_2", amountNanos: -1n, correctionId: "q", reason: "quarantine 2" });
  await app.close();
  const open = async () => (await app.billing.listQuarantine({ onlyOpen: true })).records.length;
  assert.equal(await open(), 0);
  await app.pass();
  assert.deepEqual(app.told, [1, 0]);
  assert.equal(await open(), 0);
});

test("an archive that was changed is not read back, and one of other lines is not taken for the day's", async () => {
  await using app = await startArchive();
  const { ownerUrl } = app.ledger;
  await app.close();
  await app.pass();
  const restore = () => Array.fromAsync(app.streams.restoreDay({ day: oldDay }));
  const failing = async (name: string, change: (bytes: Buffer) => Buffer, message: RegExp): Promise<void> => {
    const path = join(app.folder, oldDay, name);
    const bytes = await readFile(path);
    await writeFile(path, change(bytes));
    await assert.rejects(restore(), { code: "failed_precondition", message });
    assert.deepEqual(await app.lines(), []);
    await writeFile(path, bytes);
  };
  await failing(
    "lines-001.parquet",
    (bytes) => Buffer.from(bytes).fill(7, 100, 101),
    /is not the file that was signed/,
  );
  await failing("manifest.json", (bytes) => Buffer.from(String(bytes).replace("lines", "Lines")), /not signed/);
  await restore();

  // A ledger that was restored to a time before the day had left, and has a line less than that had.
  await query(
    ownerUrl,
    `DROP TRIGGER append_only ON billing.archived_day; DELETE FROM billing.archived_day;
     DROP TRIGGER append_only ON billing.ledger_line; DROP TRIGGER append_only ON billing.day_sum;
     DELETE FROM billing.ledger_line WHERE kind = 5; DELETE FROM billing.day_sum WHERE kind = 5;
     DELETE FROM billing.hour_sum WHERE kind = 5;
     UPDATE billing.route_sum SET corrected_nanos = 0; UPDATE billing.account_sum SET corrected_nanos = 0`,
  );
  await assert.rejects(app.pass(), /the archive has other lines of .* than the ledger/);
  assert.equal((await app.lines()).length, 7);
});

test("a ledger that was restored to a time before a day had left takes the archive that is there", async () => {
  await using app = await startArchive();
  const { ownerUrl } = app.ledger;
  await app.close();
  await app.pass();
  const files = async () => await readFile(join(app.folder, oldDay, "manifest.json"), "utf8");
  const first = await files();
  await Array.fromAsync(app.streams.restoreDay({ day: oldDay }));
  await query(ownerUrl, "DROP TRIGGER append_only ON billing.archived_day; DELETE FROM billing.archived_day");
  await app.pass();
  assert.deepEqual(await app.lines(), []);
  assert.equal(await files(), first);
});

test("the archive has every column of the ledger", async () => {
  await using app = await startOldApp(server.postgres);
  const { rows } = await query(
    app.ledger.ownerUrl,
    `SELECT column_name AS name, data_type AS type FROM information_schema.columns
     WHERE table_schema = 'billing' AND table_name = 'ledger_line'`,
  );
  const types = archiveColumns.map(({ name, type }) => ({
    name,
    type: type === "time" ? "timestamp with time zone" : type,
  }));
  const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
  assert.deepEqual(types.toSorted(byName), rows.toSorted(byName));
});
