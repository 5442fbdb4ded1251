import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, test } from "node:test";
import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { Finding } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { type Databases, sharePostgres } from "#shared/testing/share.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import { dayOfMs } from "../records/check.ts";
import { createReconcilePass, getReport, reconcile, reportDay } from "./reconcile.ts";
import { isSignedBy } from "#shared/money/report.ts";
import { closeLedgerDay, findClosableDays } from "../store/reconcile-closing.ts";
import { alone } from "../store/reconcile-report.ts";
import { copyOf, look, startThreeCalls, type ThreeCalls } from "../testing/books.ts";
import { encodeEvent, makeEvent } from "../testing/events.ts";
import { sumUpAll } from "../testing/ledger.ts";
import { startNats, type TestNats } from "../testing/nats.ts";

const resources = new AsyncDisposableStack();
let postgres: Databases;
let nats: TestNats;
let connection: NatsConnection;
before(async () => {
  postgres = resources.use(await sharePostgres());
  nats = resources.use(await startNats());
  connection = await nats.connect();
  resources.defer(() => connection.close());
});
after(() => resources.disposeAsync());

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const publicPem = publicKey.export({ type: "spki", format: "pem" }).toString();

const spans = ["day", "lately"] as const;

for (const span of spans) {
  test(`books that agree are right, and the unexplained difference is 0: ${span}`, async () => {
    await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
    const lines = await look(books, span);
    const findings = Object.fromEntries([...lines].map(([check, { finding }]) => [check, finding]));
    const { RIGHT, LISTED } = Finding;
    assert.deepEqual(
      findings,
      {
        R1: RIGHT,
        R2: RIGHT,
        R3: RIGHT,
        R4: RIGHT,
        R5: RIGHT,
        R6: RIGHT,
        R7: LISTED,
        R8: LISTED,
        R9: LISTED,
        R10: RIGHT,
        R11: RIGHT,
      },
      JSON.stringify([...lines.values()].map(({ check, summary, items }) => [check, summary, items])),
    );
    assert.deepEqual(
      [...lines.values()].map(({ differenceNanos }) => differenceNanos),
      Array.from({ length: 11 }, () => 0n),
    );
    assert.match(lines.get("R4")?.summary ?? "", /^3 events on the stream \(0\.000001200 USD\), 3 booked; 3 lines of /);
    assert.match(lines.get("R9")?.summary ?? "", /^balance below zero: 1, 0\.000001200 USD$/);
  });
}

test("a missing event that the outbox holds is told with its call and amount; one in quarantine is explained", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const { relaySession } = books;
  await books.publish({ sequence: 3n, costNanos: 1n });
  await books.publish({ sequence: 5n });
  const lost = makeEvent({ relaySession, sequence: 4n });
  books.says.unposted.push(encodeEvent(lost));
  const age = `UPDATE billing.session_progress SET whole_at = now() - interval '11 minutes';
    UPDATE billing.ledger_line SET booked_at = now() - interval '11 minutes'`;
  await books.falsify(age);
  const both = (await look(books, "lately")).get("R2");
  assert.equal(both?.finding, Finding.WRONG);
  assert.match(both.items[0] ?? "", new RegExp(`^missing: ${relaySession} 3: quarantine holds it, call `));
  assert.equal(both.items[1], `missing: ${relaySession} 4: outbox holds it, call ${lost.rid}, 0.000000400 USD`);
  assert.match(both.summary, /^2 events missing .*; 1 of them in auth-quota's outbox \(0\.000000400 USD\)/);
  books.says.isAway = true;
  assert.match((await look(books, "lately")).get("R2")?.summary ?? "", /outbox could not be asked/);
  await books.publish({ rid: lost.rid, sequence: 4n });
  await books.falsify(age);
  assert.equal((await look(books, "lately")).get("R2")?.finding, Finding.LISTED);
});

test("an event that overtook another a moment ago is no hole", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  await books.publish({ sequence: 4n });
  await books.falsify("UPDATE billing.session_progress SET whole_at = now() - interval '11 minutes'");
  assert.equal((await look(books, "lately")).get("R2")?.finding, Finding.RIGHT);
});

test("a provisional charge is a listed loss; after a day without a final R6 lists it, and a final ends both", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const rid = createRid();
  const lost = { rid, kind: RecordKind.PROVISIONAL, sequence: 0n, endCause: EndCause.RELAY_LOST };
  await books.publish(lost);
  const lines = await look(books, "day");
  assert.match(lines.get("R9")?.summary ?? "", /relay lost, charged at its last checkpoint: 1, 0\.000000400 USD/);
  assert.equal(lines.get("R2")?.finding, Finding.RIGHT, "provisional records are outside the numbering");
  assert.equal(lines.get("R3")?.finding, Finding.RIGHT);
  await books.publish({ rid, outputTokens: 30n, sequence: 3n });
  const settled = await look(books, "day");
  assert.doesNotMatch(settled.get("R9")?.summary ?? "", /relay lost/);
  assert.equal(settled.get("R3")?.finding, Finding.RIGHT);
  assert.match(
    settled.get("R10")?.summary ?? "",
    /^nothing in quarantine; 1 final after a provisional charge, 0\.000000100/,
  );
  assert.equal(settled.get("R10")?.finding, Finding.LISTED);
});

test("a correction about the call, or one that names the number, settles a record in quarantine", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  await books.publish({ rid: books.second, outputTokens: 21n });
  await books.publish({ accountId: "not an id", sequence: 3n });
  assert.equal((await look(books, "lately")).get("R10")?.items.length, 2);
  await books.falsify(copyOf(books.second, "kind = 5, reference = 'c1', key_id = NULL, event = NULL"));
  assert.deepEqual(
    (await look(books, "lately")).get("R10")?.items.map((item) => item.slice(0, 13)),
    ["quarantine 2:"],
  );
  await books.falsify(
    `${copyOf(books.second, "kind = 5, rid = NULL, note = 'see quarantine 2.', key_id = NULL, event = NULL")}
     INSERT INTO billing.correction SELECT 'c2', '', account_id, line_id, day FROM copied`,
  );
  assert.equal((await look(books, "lately")).get("R10")?.finding, Finding.RIGHT);
});

test("a record that was booked after all is no longer open", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  await books.publish({ rid: books.second, outputTokens: 21n });
  assert.equal((await look(books, "lately")).get("R10")?.items.length, 1);
  await books.falsify(
    `UPDATE billing.ledger_line SET payload_hash = (SELECT payload_hash FROM billing.usage_quarantine)
     WHERE rid = '${books.second}'`,
  );
  assert.equal((await look(books, "lately")).get("R10")?.finding, Finding.RIGHT);
});

test("estimates are told by model: cost by hold, overruns, estimated counts", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  await books.publish({ heldNanos: 300n, usageSource: UsageSource.ESTIMATED });
  const line = (await look(books, "day")).get("R7");
  assert.match(
    line?.summary ?? "",
    /^4 calls; 1 above their hold, by 0\.000000100 USD; 1 charged by estimated counts;/,
  );
  const wanted =
    /^above the bar: demo-chat: 4 calls, cost by hold p50 0\.080, p99 1\.333, 1 above it by 0\.000000100 USD, 1/;
  assert.match(line?.items[0] ?? "", wanted);
});

test("a stream that lost its data explains the lines that it no longer holds", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  await (await jetstreamManager(connection)).streams.purge(usageStream);
  const line = (await look(books, "day")).get("R4");
  assert.equal(line?.finding, Finding.LISTED, line?.summary);
  assert.match(line?.summary ?? "", /3 lines older than what the stream still holds/);
  assert.equal(line?.differenceNanos, 0n);
});

test("a check whose store does not answer is unchecked, the others are made", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  books.says.isAway = true;
  const away = {
    ...books,
    reconciling: { ...books.reconciling, nats: { ...books.reconciling.nats, current: () => undefined } },
  };
  const lines = await look(away, "day");
  const unchecked = [...lines.values()]
    .filter(({ finding }) => finding === Finding.UNCHECKED)
    .map(({ check }) => check);
  assert.deepEqual(unchecked, ["R4", "R5", "R6"]);
  assert.match(lines.get("R4")?.summary ?? "", /^could not be checked: NATS is not connected$/);
});

test("metrics follow the newest run: differences, findings, the last success", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const { reconciliationDifference, reconciliationFindings, reconciliationLastSuccess } = books.reconciling.metrics;
  await look(books, "lately");
  const [success] = (await reconciliationLastSuccess.get()).values;
  assert.ok(success && success.value > Date.now() / 1_000);
  await books.falsify("UPDATE billing.account SET balance_nanos = balance_nanos + 7");
  await look(books, "lately");
  const off = (await reconciliationDifference.get()).values.filter(({ value }) => value !== 0);
  assert.deepEqual(
    off.map(({ labels, value }) => [labels.run, labels.check, value]),
    [["lately", "R1", 7]],
  );
  const wrong = (await reconciliationFindings.get()).values.filter(
    ({ labels, value }) => labels.finding === "wrong" && value === 1,
  );
  assert.deepEqual(
    wrong.map(({ labels }) => labels.check),
    ["R1"],
  );
  assert.equal((await reconciliationLastSuccess.get()).values[0]?.value, success.value);
});

test("the report of a day is kept, signed, and told again as it was; its signature is of every byte", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const { report } = await reconcile(books.reconciling, { $typeName: "billing.v1.ReconcileRequest", day: books.day });
  const kept = await getReport(books.ledger.pool, { $typeName: "billing.v1.GetReportRequest", day: books.day });
  assert.deepEqual(kept.report, report);
  const { content, signature, publicKey: told, unexplainedNanos } = kept.report ?? {};
  assert.ok(content && signature);
  assert.equal(told, publicPem);
  assert.equal(unexplainedNanos, 0n);
  assert.partialDeepStrictEqual(JSON.parse(Buffer.from(content).toString()), {
    day: books.day,
    unexplained_nanos: "0",
    unexplained_usd: "0.000000000",
  });
  assert.equal(isSignedBy(content, signature, publicPem), true);
  const changed = Buffer.from(Buffer.from(content).toString().replace("3 events", "4 events"));
  assert.equal(isSignedBy(changed, signature, publicPem), false);
  const other = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }).toString();
  assert.equal(isSignedBy(content, signature, other), false);
});

test("what was looked at lately is not kept, a report is never changed, a day to come is refused", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const lately = await reconcile(books.reconciling, { $typeName: "billing.v1.ReconcileRequest", day: "" });
  assert.deepEqual([lately.report?.day, lately.report?.content?.length, lately.report?.lines?.length], ["", 0, 11]);
  const asked = { $typeName: "billing.v1.GetReportRequest", day: books.day } as const;
  await assert.rejects(getReport(books.ledger.pool, asked), { code: "not_found" });
  await reportDay(books.reconciling, books.day);
  await assert.rejects(query(books.ledger.ownerUrl, "UPDATE billing.report SET content = ''"), /append-only/);
  await assert.rejects(books.ledger.pool.query("DELETE FROM billing.report"), /permission denied/);
  const ahead = { $typeName: "billing.v1.ReconcileRequest", day: dayOfMs(Date.now() + 172_800_000) } as const;
  await assert.rejects(reconcile(books.reconciling, ahead), { code: "invalid_argument" });
});

const dayMs = 86_400_000;

test("a report leaves 400 days after it was made, with the day's report; until then nobody deletes it", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const { ownerUrl } = books.ledger;
  for (const days of [399, 401])
    await query(
      ownerUrl,
      `INSERT INTO billing.report (day, made_at, content)
       VALUES (current_date - ${days}, now() - interval '${days} days', '')`,
    );
  await assert.rejects(query(ownerUrl, "DELETE FROM billing.report"), /append-only/);
  const midnightMs = Date.parse(`${dayOfMs(Date.now() + dayMs)}T00:00:00Z`);
  await createReconcilePass({ ...books.reconciling, clock: { nowMs: () => midnightMs + 900_000 } })();
  const { rows } = await query(ownerUrl, "SELECT current_date - day AS days FROM billing.report ORDER BY days");
  assert.deepEqual(rows, [{ days: 0 }, { days: 399 }]);
});

async function countReports({ ledger }: ThreeCalls): Promise<number> {
  const { rows } = await ledger.pool.query("SELECT count(*)::int AS reports FROM billing.report");
  return rows[0].reports;
}

test("a day gets its report 15 minutes after its end, once, whichever replicas look; an unchecked one again", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const midnightMs = Date.parse(`${dayOfMs(Date.now() + dayMs)}T00:00:00Z`);
  const at = (nowMs: number) => createReconcilePass({ ...books.reconciling, clock: { nowMs: () => nowMs } });
  await at(midnightMs + 899_000)();
  const before = await countReports(books);
  books.says.isAway = true;
  await at(midnightMs + 900_000)();
  assert.equal((await countReports(books)) - before, 1);
  books.says.isAway = false;
  await Promise.all([at(midnightMs + 901_000)(), at(midnightMs + 902_000)()]);
  await at(midnightMs + 903_000)();
  assert.equal((await countReports(books)) - before, 2);
});

test("a closed day is not read again: its partition may go, and its sums are held against the balances", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const { pool } = books.ledger;
  const tomorrow = dayOfMs(Date.now() + dayMs);
  assert.deepEqual(await findClosableDays(pool, tomorrow), [], "its lines are not summed up");
  await sumUpAll(books.ledger);
  assert.deepEqual(await findClosableDays(pool, tomorrow), [books.day]);
  const closings = await Promise.all([closeLedgerDay(pool, books.day), closeLedgerDay(pool, books.day)]);
  assert.equal(closings.filter(Boolean).length, 1);
  assert.deepEqual(await findClosableDays(pool, tomorrow), []);
  const partition = `billing.ledger_line_${books.day.replaceAll("-", "_")}`;
  await query(books.ledger.ownerUrl, `ALTER TABLE billing.ledger_line DETACH PARTITION ${partition}`);
  assert.equal((await look(books, "day")).get("R1")?.finding, Finding.RIGHT);
  await books.falsify("UPDATE billing.booked_sum SET amount_nanos = amount_nanos + 3");
  const line = (await look(books, "lately")).get("R1");
  assert.deepEqual([line?.finding, line?.differenceNanos], [Finding.RIGHT, 0n], "no account has changed lately");
  assert.equal((await look(books, "day")).get("R1")?.differenceNanos, 6n, "of the account, and of its key");
});

test("a day is not closed while its sums are not those of its lines", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  await sumUpAll(books.ledger);
  const pass = createReconcilePass({
    ...books.reconciling,
    clock: { nowMs: () => Date.parse(`${books.day}T00:20:00Z`) + 63 * dayMs },
  });
  const closed = async () => (await books.ledger.pool.query("SELECT day FROM billing.closed_day")).rows;
  const change = (nanos: number) => books.falsify(`UPDATE billing.hour_sum SET amount_nanos = amount_nanos + ${nanos}`);
  await change(1);
  await pass();
  assert.deepEqual(await closed(), []);
  await change(-1);
  await books.falsify("DELETE FROM billing.report");
  await pass();
  assert.deepEqual(await closed(), [{ day: books.day }]);
});

test("only one of two replicas does what must be done alone", async () => {
  await using books = await startThreeCalls({ postgres, nats, connection, signingKey: privateKey });
  const { promise, resolve } = Promise.withResolvers<void>();
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  const first = alone(books.ledger.pool, "billing.daily_report", () => (start(), promise));
  await started;
  let done = 0;
  const count = async (): Promise<void> => void (done += 1);
  await alone(books.ledger.pool, "billing.daily_report", count);
  resolve();
  await first;
  assert.equal(done, 0, "the lock was taken");
  await alone(books.ledger.pool, "billing.daily_report", count);
  assert.equal(done, 1);
});
