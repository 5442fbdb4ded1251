import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { v7 } from "uuid";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const dayMs = 86_400_000;
const nowMs = Date.now();
const nothing = { code: "not_found", message: "nothing is booked for a call with this rid" };

/** The calls with a clock that the test sets. */
async function startApp() {
  const time = { nowMs };
  const app = await startAppOn(server.postgres, { clock: { nowMs: () => time.nowMs } });
  return { ...app, time };
}

test("GetCall tells all lines of a call in the order of their booking, on whatever days they were booked", async () => {
  await using app = await startApp();
  const { billing, time } = app;
  const rid = v7({ msecs: nowMs - 3 * dayMs });
  const accountId = "acct_test";
  time.nowMs = nowMs - 3 * dayMs;
  await app.book({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n }, {});
  time.nowMs = nowMs - 2 * dayMs;
  await app.book({ rid });
  await billing.refund({ accountId, rid, amountNanos: 150n, refundId: "r", reason: "broken answer" });
  time.nowMs = nowMs;
  await billing.correct({ accountId, amountNanos: -7n, correctionId: "c", reason: "taken back", rid });
  await billing.refund({ accountId, rid, refundId: "r2", reason: "the rest" });

  const call = await billing.getCall({ rid, accountId });
  assert.equal(call.accountId, accountId);
  assert.deepEqual(
    call.lines.map(({ kind, amountNanos, reference, note }) => [kind, amountNanos, reference, note]),
    [
      [LineKind.PROVISIONAL_CHARGE, -210n, "", ""],
      [LineKind.FINAL_ADJUSTMENT, -190n, "", ""],
      [LineKind.REFUND, 150n, "r", "broken answer"],
      [LineKind.CORRECTION, -7n, "c", "taken back"],
      [LineKind.REFUND, 250n, "r2", "the rest"],
    ],
  );
  const [provisional, final] = call.lines;
  assert.deepEqual([provisional?.usage?.usage?.outputTokens, final?.usage?.usage?.outputTokens], [1n, 20n]);
  assert.ok(call.lines.every(({ bookedAt }) => bookedAt && timestampMs(bookedAt) > nowMs - dayMs));
  assert.deepEqual(await billing.getCall({ rid }), call);
});

test("GetCall tells an account nothing of another's call, nor of what was booked elsewhere about its own", async () => {
  await using app = await startApp();
  const { billing } = app;
  const rid = createRid();
  await app.book({ rid });
  await billing.correct({ accountId: "acct_2", amountNanos: 5n, correctionId: "c", reason: "moved", rid });
  await assert.rejects(billing.getCall({ rid, accountId: "acct_2" }), nothing);
  await assert.rejects(billing.getCall({ rid: createRid() }), nothing);
  const accountsOf = async (accountId: string) =>
    (await billing.getCall({ rid, accountId })).lines.map((line) => line.accountId);
  assert.deepEqual(await accountsOf("acct_test"), ["acct_test"]);
  assert.deepEqual(await accountsOf(""), ["acct_test", "acct_2"]);
});

test("GetCall tells of a call that is booked by hand alone the account of that", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.billing.correct({ accountId: "acct_test", amountNanos: -9n, correctionId: "c", reason: "r", rid });
  const { accountId, lines } = await app.billing.getCall({ rid, accountId: "acct_test" });
  assert.deepEqual([accountId, lines.length], ["acct_test", 1]);
  await assert.rejects(app.billing.getCall({ rid, accountId: "acct_2" }), nothing);
});

test("GetCall does not say that nothing is booked when the day's partition is detached", async () => {
  await using app = await startApp();
  const rid = v7({ msecs: nowMs - 50 * dayMs });
  await app.book({ rid });
  const day = new Date(nowMs - 50 * dayMs).toISOString().slice(0, 10);
  const partition = `billing.ledger_line_${day.replaceAll("-", "_")}`;
  await query(app.ledger.ownerUrl, `INSERT INTO billing.closed_day (day) VALUES ('${day}')`);
  assert.equal((await app.billing.getCall({ rid })).lines.length, 1);
  await query(app.ledger.ownerUrl, `ALTER TABLE billing.ledger_line DETACH PARTITION ${partition}`);
  const message = /the lines of .* are not in the ledger any more: .* restore-day/;
  await assert.rejects(app.billing.getCall({ rid }), { code: "failed_precondition", message });
});
