import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createCloseTally, hashOfContent, readCloseContent, readCloseLine } from "#shared/money/day-close.ts";
import { isSignedBy } from "#shared/money/report.ts";
import { createLog } from "#shared/process/log.ts";
import { query } from "#shared/testing/postgres.ts";
import { dayOfMs } from "../records/check.ts";
import { forgetCloseLines } from "../store/day-close.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import type { EventFields } from "../testing/events.ts";
import { startLedger } from "../testing/ledger.ts";
import { createClosePass } from "./day-close.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
// The day before yesterday at noon: partitions are made for days near the server's own clock.
const noonMs = Math.floor(Date.now() / dayMs) * dayMs - 1.5 * dayMs;
const day = dayOfMs(noonMs);
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const publicPem = publicKey.export({ type: "spki", format: "pem" }).toString();

async function startApp({ signingKey }: { signingKey: typeof privateKey | undefined } = { signingKey: privateKey }) {
  const time = { nowMs: noonMs };
  const clock = { nowMs: () => time.nowMs };
  const app = await startAppOn(server.postgres, { clock, signingKey });
  const { pool } = app.ledger;
  const told = { closedUntil: 0 };
  const closedUntil = { set: (seconds: number) => void (told.closedUntil = seconds) };
  const pass = createClosePass({ pool, clock, signingKey, log: createLog("test", "silent") }, closedUntil);
  const linesOf = async (of: string) =>
    (await Array.fromAsync(app.streams.listCloseLines({ day: of }))).flatMap(({ lines }) => lines);
  const close = async (of: string) => {
    const { close: made } = await app.billing.closeDay({ day: of });
    assert.ok(made);
    return made;
  };
  /** Books calls that begin now, by the clock of the test, unless their ids say otherwise. */
  const book = (...events: EventFields[]) =>
    app.book(...events.map((event) => ({ rid: v7({ msecs: time.nowMs }), ...event })));
  return { ...app, book, time, pass, told, close, linesOf };
}

const shown = (line: string) => {
  const { accountId, figures } = readCloseLine(line);
  return [accountId, ...Object.values(figures)];
};

test("a closed day has each account's sums between two balances, signed, and adds up by itself", async () => {
  await using app = await startApp();
  app.time.nowMs = noonMs - dayMs;
  const rid = v7({ msecs: noonMs - dayMs });
  await app.billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId: "p" });
  await app.book({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n, upstreamCostNanos: 30n });
  app.time.nowMs = noonMs;
  // A call of the day before that is booked now counts now, with what the provisional charge has not had.
  await app.book({ rid, upstreamCostNanos: 100n }, { modelRequested: "other" });
  await app.book({ accountId: "acct_2", keyId: "key_2", upstreamCostNanos: 7n });
  await app.billing.refund({ accountId: "acct_test", rid, amountNanos: 100n, refundId: "r", reason: "r" });
  await app.billing.correct({ accountId: "acct_test", amountNanos: -7n, correctionId: "c", reason: "r" });
  app.time.nowMs = noonMs + dayMs;
  await app.book({});
  await app.billing.credit({ accountId: "acct_late", amountNanos: 1n, paymentId: "late" });

  const made = await app.close(day);
  const [header = "", ...lines] = await app.linesOf(day);
  assert.match(header, /^day,account_id,opening_nanos,charges_nanos,.*,search_sources,other_models_nanos$/);
  assert.deepEqual(lines.map(shown), [
    ["acct_2", 0n, -400n, 0n, 0n, 0n, -400n, 1n, 7n, 0n],
    ["acct_test", 4_790n, -590n, 0n, 100n, -7n, 4_293n, 1n, 70n, 1n],
  ]);
  const tally = createCloseTally(day);
  for (const line of lines) tally.add(line);
  const content = readCloseContent(made.content);
  assert.partialDeepStrictEqual(content, { ...tally.end(), previous_day: "", breaks: 0, accounts: 2 });
  assert.equal(content.closing_nanos, "3893");
  assert.ok(isSignedBy(made.content, made.signature, publicPem));

  await app.book({ rid: v7({ msecs: noonMs }) });
  assert.deepEqual(await app.close(day), made, "the second time it is the kept one");
  assert.deepEqual((await app.linesOf(day)).slice(1), lines);
});

test("days follow each other: opening balances are the closing ones before, and contents name each other", async () => {
  await using app = await startApp();
  await app.book({}, { accountId: "acct_2", keyId: "key_2" });
  app.time.nowMs = noonMs + dayMs / 2;
  await app.pass();
  assert.equal(app.told.closedUntil, Date.parse(`${day}T00:00:00Z`) / 1_000, "the day is to be closed next");
  await assert.rejects(app.linesOf(day), { code: "not_found" }, "not before it is final");
  await assert.rejects(app.close(day), { code: "failed_precondition", message: /is not final/ });
  app.time.nowMs += hourMs;
  await app.pass();
  assert.equal(app.told.closedUntil, Date.parse(`${day}T00:00:00Z`) / 1_000 + 86_400);
  const first = await app.close(day);
  await app.billing.credit({ accountId: "acct_2", amountNanos: 400n, paymentId: "p" });
  const [next, afterNext] = [dayOfMs(noonMs + dayMs), dayOfMs(noonMs + 2 * dayMs)];
  app.time.nowMs = noonMs + 2.6 * dayMs;
  await assert.rejects(app.close(afterNext), {
    code: "failed_precondition",
    message: `the day to close is ${next}: each file begins where the one before ends`,
  });
  await app.pass();
  const second = readCloseContent((await app.close(next)).content);
  assert.partialDeepStrictEqual(second, {
    previous_day: day,
    previous_content_sha256: hashOfContent(first.content),
    breaks: 0,
  });
  assert.deepEqual((await app.linesOf(next)).slice(1).map(shown), [
    ["acct_2", -400n, 0n, 400n, 0n, 0n, 0n, 0n, 0n, 0n],
    ["acct_test", -400n, 0n, 0n, 0n, 0n, -400n, 0n, 0n, 0n],
  ]);
  await app.pass();
  // acct_2 had 0 at the end and nothing since: it is not in the file, and that is no break.
  assert.deepEqual(
    [(await app.linesOf(afterNext)).length, readCloseContent((await app.close(afterNext)).content).breaks],
    [2, 0],
  );
});

test("a line that appears in a closed day is told by the next one", async () => {
  await using app = await startApp();
  await app.book({});
  app.time.nowMs = noonMs + 0.6 * dayMs;
  await app.close(day);
  app.time.nowMs = noonMs;
  await app.book({});
  app.time.nowMs = noonMs + 1.6 * dayMs;
  assert.equal(readCloseContent((await app.close(dayOfMs(noonMs + dayMs))).content).breaks, 1);
});

test("of processes that close a day at once one does, and all answer the same", async () => {
  await using app = await startApp();
  await app.book({});
  app.time.nowMs = noonMs + 0.6 * dayMs;
  await Promise.allSettled([app.pass(), app.pass(), app.close(day).catch(() => undefined)]);
  const { rows } = await query(app.ledger.ownerUrl, "SELECT count(*)::int AS closes FROM billing.day_close");
  assert.deepEqual(rows, [{ closes: 1 }]);
  assert.equal((await app.linesOf(day)).length, 2);
});

test("without a key no day is closed, and what is closed cannot be changed", async () => {
  await using without = await startApp({ signingKey: undefined });
  without.time.nowMs = noonMs + 0.6 * dayMs;
  await without.pass();
  assert.equal(without.told.closedUntil, 0);
  await assert.rejects(without.close(day), { code: "failed_precondition", message: /RECONCILE_SIGNING_KEY_FILE/ });
  await using app = await startApp();
  await app.book({});
  app.time.nowMs = noonMs + 0.6 * dayMs;
  await app.close(day);
  for (const table of ["day_close", "day_close_line"])
    await assert.rejects(query(app.ledger.ownerUrl, `UPDATE billing.${table} SET day = day`), /append-only/);
});

test("lines of a day leave 401 days after it was closed, those of the last closed day never; what was signed stays", async () => {
  await using app = await startApp();
  const { pool, ownerUrl } = app.ledger;
  const change = (statement: string) => query(ownerUrl, statement);
  const closedDays = async () =>
    (await pool.query("SELECT DISTINCT day FROM billing.day_close_line ORDER BY day")).rows.map((row) => row.day);
  const putBack = (days: number) =>
    change(`SET session_replication_role = replica;
      UPDATE billing.day_close SET day = day - ${days}, made_at = made_at - interval '${days} days';
      UPDATE billing.day_close_line SET day = day - ${days}`);
  const closeAt = async (nowMs: number): Promise<void> => {
    app.time.nowMs = nowMs;
    await app.pass();
  };
  await app.book({}, { accountId: "acct_2", keyId: "key_2" });
  await closeAt(noonMs + 0.6 * dayMs);
  await closeAt(noonMs + 1.6 * dayMs);
  const before = (days: number) => [dayOfMs(noonMs - days * dayMs), dayOfMs(noonMs + (1 - days) * dayMs)];
  assert.deepEqual([await closedDays(), await forgetCloseLines(pool)], [before(0), 0n]);
  await assert.rejects(change("DELETE FROM billing.day_close_line"), /append-only/, "not by the owner");
  await assert.rejects(change("DELETE FROM billing.day_close"), /append-only/);
  await putBack(399);
  assert.deepEqual([await forgetCloseLines(pool), await closedDays()], [0n, before(399)]);
  await putBack(3);
  assert.deepEqual([await forgetCloseLines(pool), await closedDays()], [2n, before(402).slice(1)]);
  assert.equal(await forgetCloseLines(pool), 0n, "the next day must open as the last one closed");
  const closes = await pool.query("SELECT day FROM billing.day_close ORDER BY day");
  assert.deepEqual(
    closes.rows.map((row) => row.day),
    before(402),
  );
});

test("lines of a day are listed for 400 days after it was closed", async () => {
  await using app = await startApp();
  await app.book({});
  app.time.nowMs = noonMs + 0.6 * dayMs;
  const made = await app.close(day);
  app.time.nowMs += 400 * dayMs;
  assert.equal((await app.linesOf(day)).length, 2);
  app.time.nowMs += 1;
  await assert.rejects(app.linesOf(day), { code: "failed_precondition", message: /kept for 400 days/ });
  assert.deepEqual(await app.close(day), made);
});

test("new days of the ledger are found by when they were booked", async () => {
  await using app = await startApp();
  await app.book({});
  const { rows } = await query(
    app.ledger.ownerUrl,
    `SELECT DISTINCT i.indisvalid AS valid FROM pg_class AS c JOIN pg_index AS i ON i.indrelid = c.oid
     JOIN pg_class AS x ON x.oid = i.indexrelid JOIN pg_am AS m ON m.oid = x.relam
     WHERE c.relname LIKE 'ledger_line_2%' AND m.amname = 'brin'`,
  );
  assert.deepEqual(rows, [{ valid: true }]);
});
