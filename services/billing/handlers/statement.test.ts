import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { v7 } from "uuid";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { query } from "#shared/testing/postgres.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const nowMs = Date.now();

/** The calls with a clock that the test sets. */
async function startApp(startMs: number) {
  const time = { nowMs: startMs };
  const app = await startAppOn(server.postgres, { clock: { nowMs: () => time.nowMs } });
  const statement = (fromMs: number, untilMs: number) =>
    app.billing.getStatement({
      accountId: "acct_test",
      from: timestampFromMs(fromMs),
      until: timestampFromMs(untilMs),
    });
  return { ...app, time, statement };
}

test("a statement sums by kind and by model what was booked within its time, between two balances", async () => {
  await using app = await startApp(nowMs - 2 * dayMs);
  const rid = v7({ msecs: nowMs - 2 * dayMs });
  await app.billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId: "p" });
  await app.book({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n });
  app.time.nowMs = nowMs - dayMs;
  await app.book({ rid }, { modelRequested: "other" }, { modelRequested: "other" });
  await app.book({ accountId: "acct_2", keyId: "key_2" });
  await app.billing.refund({ accountId: "acct_test", rid, amountNanos: 100n, refundId: "r", reason: "r" });
  await app.billing.correct({ accountId: "acct_test", amountNanos: -7n, correctionId: "c", reason: "r" });
  app.time.nowMs = nowMs;
  await app.book({});

  const { openingBalanceNanos, closingBalanceNanos, sums, models, isFinal } = await app.statement(
    nowMs - 1.5 * dayMs,
    nowMs - 0.5 * dayMs,
  );
  assert.deepEqual([openingBalanceNanos, closingBalanceNanos, isFinal], [4_790n, 3_893n, true]);
  assert.deepEqual(
    sums.map(({ kind, lines, amountNanos }) => [kind, lines, amountNanos]),
    [
      [LineKind.CHARGE, 2n, -800n],
      [LineKind.FINAL_ADJUSTMENT, 1n, -190n],
      [LineKind.CORRECTION, 1n, -7n],
      [LineKind.REFUND, 1n, 100n],
    ],
  );
  assert.deepEqual(
    models.map(({ group, calls, chargedNanos, usage }) => [group, calls, chargedNanos, usage?.outputTokens]),
    [
      ["demo-chat", 0n, 190n, 19n],
      ["other", 2n, 800n, 40n],
    ],
  );
});

test("a statement counts a call as failed by what was booked of it within its time, whatever comes later", async () => {
  await using app = await startApp(nowMs - 2 * dayMs);
  const provisional = { kind: RecordKind.PROVISIONAL, outputTokens: 1n, endCause: EndCause.RELAY_LOST };
  const createRid = (): string => v7({ msecs: nowMs - 2 * dayMs });
  const [healed, lost] = [createRid(), createRid()];
  await app.book({ rid: healed, ...provisional }, { rid: lost, ...provisional });
  await app.book({ rid: healed }, { rid: createRid(), endCause: EndCause.UPSTREAM_ERROR });
  await app.book({ rid: createRid(), endCause: EndCause.CLIENT_GONE });
  const counts = async (fromMs: number, untilMs: number) =>
    (await app.statement(fromMs, untilMs)).models.map(({ calls, failedCalls }) => [calls, failedCalls]);
  const first = [nowMs - 2.5 * dayMs, nowMs - 1.5 * dayMs] as const;
  assert.deepEqual(await counts(...first), [[4n, 2n]]);
  app.time.nowMs = nowMs;
  await app.book({ rid: lost });
  assert.deepEqual(await counts(...first), [[4n, 2n]]);
  assert.deepEqual(await counts(nowMs - dayMs, nowMs + 1), [[0n, 0n]]);
  assert.deepEqual(await counts(first[0], nowMs + 1), [[4n, 1n]]);
});

test("the statement of an account that the ledger has not met is empty", async () => {
  await using app = await startApp(nowMs);
  const { openingBalanceNanos, closingBalanceNanos, sums, models } = await app.statement(nowMs - dayMs, nowMs);
  assert.deepEqual([openingBalanceNanos, closingBalanceNanos, sums, models], [0n, 0n, [], []]);
});

test("a statement is final an hour after its end, and a call that is booked later does not change it", async () => {
  await using app = await startApp(nowMs);
  const untilMs = nowMs - hourMs;
  assert.equal((await app.statement(untilMs - dayMs, untilMs + 1)).isFinal, false);
  const closed = await app.statement(untilMs - dayMs, untilMs);
  assert.equal(closed.isFinal, true);
  await app.book({ rid: v7({ msecs: untilMs - hourMs }) }, { rid: v7({ msecs: nowMs - 59 * dayMs }) });
  assert.deepEqual(await app.statement(untilMs - dayMs, untilMs), closed);
  const open = await app.statement(untilMs, nowMs + 1);
  assert.deepEqual([open.openingBalanceNanos, open.closingBalanceNanos, open.isFinal], [0n, -800n, false]);
});

test("a statement that would need a detached partition is refused, one of later times is not", async () => {
  await using app = await startApp(nowMs - 50 * dayMs);
  const { ownerUrl } = app.ledger;
  await app.book({ rid: v7({ msecs: nowMs - 50 * dayMs }) });
  app.time.nowMs = nowMs;
  await app.book({});
  const day = new Date(nowMs - 50 * dayMs).toISOString().slice(0, 10);
  await query(ownerUrl, `INSERT INTO billing.closed_day (day) VALUES ('${day}')`);
  const whole = await app.statement(nowMs - dayMs, nowMs + 1);
  assert.deepEqual([whole.openingBalanceNanos, whole.closingBalanceNanos], [-400n, -800n]);
  const partition = `billing.ledger_line_${day.replaceAll("-", "_")}`;
  await query(ownerUrl, `ALTER TABLE billing.ledger_line DETACH PARTITION ${partition}`);
  const refused = {
    code: "failed_precondition",
    message: /the lines of .* are not in the ledger any more: .* restore-day/,
  };
  await assert.rejects(app.statement(nowMs - dayMs, nowMs + 1), refused);
  const days = { fromDay: day, untilDay: new Date(nowMs + dayMs).toISOString().slice(0, 10) };
  await assert.rejects(Array.fromAsync(app.streams.exportLines(days)), refused);
  const later = await app.statement(nowMs + 12 * dayMs, nowMs + 13 * dayMs);
  assert.deepEqual([later.openingBalanceNanos, later.closingBalanceNanos], [-800n, -800n]);
});

type Booked = { atMs: number; amountNanos: bigint };

async function bookAtRandom(app: Awaited<ReturnType<typeof startApp>>, steps: readonly number[]): Promise<Booked[]> {
  const booked: Booked[] = [];
  for (const [index, step] of steps.entries()) {
    app.time.nowMs += step * 3_001;
    const atMs = app.time.nowMs;
    const id = `id_${index}`;
    const accountId = "acct_test";
    // Rids from 56 days before to 20 hours ahead: the day of a line is far from that of its booking.
    const rid = v7({ msecs: atMs + (step % 60 === 0 ? 20 * hourMs : -(step % 57) * dayMs) });
    await app.book({ rid }, { rid: v7({ msecs: atMs }), accountId: "acct_2", keyId: "key_2" });
    booked.push({ atMs, amountNanos: -400n });
    const amountNanos = BigInt(step % 4) * 100n;
    if (step % 3 === 0) await app.billing.credit({ accountId, amountNanos: amountNanos + 1n, paymentId: id });
    else await app.billing.refund({ accountId, rid, amountNanos, refundId: id, reason: "r" });
    booked.push({ atMs, amountNanos: step % 3 === 0 ? amountNanos + 1n : amountNanos || 400n });
  }
  return booked;
}

test(
  "for any time: opening is the sum of all before, closing that of all before its end",
  { timeout: 60_000 },
  async () => {
    const startMs = nowMs - 2 * dayMs;
    await using app = await startApp(startMs);
    const booked = await bookAtRandom(app, fc.sample(fc.integer({ min: 0, max: 1_000 }), 30));
    const sumBefore = (endMs: number): bigint =>
      booked.reduce((sum, { atMs, amountNanos }) => (atMs < endMs ? sum + amountNanos : sum), 0n);
    const instant = fc.oneof(
      fc.integer({ min: startMs, max: nowMs + hourMs }),
      fc.constantFrom(...booked.flatMap(({ atMs }) => [atMs, atMs + 1])),
    );
    await fc.assert(
      fc.asyncProperty(instant, fc.integer({ min: 1, max: 2 * dayMs }), async (fromMs, spanMs) => {
        const { openingBalanceNanos, closingBalanceNanos, sums } = await app.statement(fromMs, fromMs + spanMs);
        assert.equal(openingBalanceNanos, sumBefore(fromMs));
        assert.equal(closingBalanceNanos, sumBefore(fromMs + spanMs));
        const total = sums.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
        assert.equal(openingBalanceNanos + total, closingBalanceNanos);
      }),
      { numRuns: 60 },
    );
  },
);

test("a statement without its account or with times that make no sense is refused", async () => {
  await using app = await startApp(nowMs);
  const at = timestampFromMs;
  const refused: [Promise<unknown>, RegExp][] = [
    [app.billing.getStatement({ from: at(1), until: at(2) }), /^account_id must be/],
    [app.billing.getStatement({ accountId: "a", until: at(2) }), /^from is missing/],
    [app.billing.getStatement({ accountId: "a", from: at(2), until: at(2) }), /^until must be after from/],
    [app.billing.getStatement({ accountId: "a", from: at(0), until: at(401 * dayMs) }), /400 days/],
  ];
  for (const [call, message] of refused) await assert.rejects(call, { code: "invalid_argument", message });
});
