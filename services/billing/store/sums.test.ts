import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { v7 } from "uuid";
import { UsageGrouping } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { query } from "#shared/testing/postgres.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { startLedger } from "../testing/ledger.ts";
import { forgetHours, makeSums, moveFence, sumStep } from "./make-sums.ts";
import { findWrongSums } from "./reconcile-books.ts";
import { findUnequalSums } from "./reconcile-sums.ts";
import { readSumsLag, readSumState } from "./sum-state.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const today = Math.floor(Date.now() / dayMs) * dayMs;

/** The calls with a clock that the test sets. */
async function startApp(startMs: number) {
  const time = { nowMs: startMs };
  const app = await startAppOn(server.postgres, { clock: { nowMs: () => time.nowMs } });
  return { ...app, time };
}

type App = Awaited<ReturnType<typeof startApp>>;

/** Makes six days of bookings, some late, some by hand; sums up before some of them, as `sumsBefore` says. */
async function bookDays({ billing, book, time, ledger }: App, sumsBefore: (step: number) => boolean): Promise<void> {
  const { FINAL, PROVISIONAL } = RecordKind;
  const ends = [EndCause.COMPLETE, EndCause.UPSTREAM_CUT, EndCause.CLIENT_GONE];
  for (let step = 0; step < 36; step += 1) {
    time.nowMs = today - 6 * dayMs + step * 4 * hourMs + (step % 3) * 1_234_567;
    if (sumsBefore(step)) await makeSums(ledger.pool, time.nowMs);
    // A relay was away for up to two days with every fifth of its calls.
    const rid = v7({ msecs: time.nowMs - (step % 5 === 0 ? (step % 7) * 7 * hourMs : 1_000) });
    const [endCause, keyId] = [ends[step % 3], `key_${step % 2}`];
    const modelRequested = step % 4 === 0 ? "demo-large" : "demo-chat";
    if (step % 6 === 1)
      await book({ rid, keyId, modelRequested, kind: PROVISIONAL, outputTokens: 3n, endCause: EndCause.RELAY_LOST });
    if (step % 6 === 1) time.nowMs += (step % 4) * 20 * hourMs;
    await book({ rid, keyId, modelRequested, kind: FINAL, endCause: endCause ?? EndCause.COMPLETE });
    await book({ accountId: "acct_other", keyId: "key_other", outputTokens: BigInt(step), usage: { inputTokens: 1n } });
    const accountId = "acct_test";
    if (step % 8 === 0) await billing.credit({ accountId, amountNanos: 5_000n + BigInt(step), paymentId: `p${step}` });
    if (step % 8 === 2) await billing.correct({ accountId, amountNanos: -7n, correctionId: `c${step}`, reason: "r" });
    if (step % 8 === 4) await billing.refund({ accountId, rid, amountNanos: 30n, refundId: `r${step}`, reason: "r" });
  }
}

const { UNSPECIFIED, DAY, MODEL, KEY } = UsageGrouping;

/** All that is told of the account and these times. */
async function tell({ billing }: App, spans: readonly (readonly [number, number])[]) {
  return await Promise.all(
    spans.map(async ([fromMs, untilMs]) => {
      const span = { accountId: "acct_test", from: timestampFromMs(fromMs), until: timestampFromMs(untilMs) };
      const { isFinal: _, ...statement } = await billing.getStatement(span);
      const usage = await Promise.all(
        [UNSPECIFIED, DAY, MODEL, KEY].map((groupBy) => billing.queryUsage({ ...span, groupBy })),
      );
      const ofKey = await billing.queryUsage({ ...span, groupBy: MODEL, keyId: "key_1" });
      const ofModel = await billing.queryUsage({ ...span, groupBy: DAY, model: "demo-large" });
      return { statement, usage, ofKey, ofModel };
    }),
  );
}

const hours = fc.integer({ min: -8 * 24, max: 24 }).map((hour) => today + hour * hourMs);
const times = fc.oneof(
  hours,
  fc.integer({ min: -8 * dayMs, max: dayMs }).map((offset) => today + offset),
);
const anySpans = fc
  .sample(fc.tuple(times, times), { numRuns: 24, seed: 7 })
  .map(([a, b]) => [Math.min(a, b), Math.max(a, b) + 1] as const);
const wholeSpans = [-8, -6, -3, -1].map((day) => [today + day * dayMs, today + dayMs] as const);
const spans = [...wholeSpans, ...anySpans];

async function assertEqualSums({ ledger }: App): Promise<void> {
  for (let day = -9; day < 2; day += 1) {
    const name = new Date(today + day * dayMs).toISOString().slice(0, 10);
    assert.deepEqual(await findUnequalSums(ledger.pool, name), [], name);
  }
}

for (const { name, sumsBefore } of [
  { name: "by one pass at the end, as for a ledger from before there were sums", sumsBefore: () => false },
  { name: "before every booking", sumsBefore: () => true },
  { name: "now and then", sumsBefore: (step: number) => step % 7 === 4 },
]) {
  test(`usage and statements read sums as they read lines; summed up ${name}`, { timeout: 120_000 }, async () => {
    await using app = await startApp(today - 6 * dayMs);
    const { pool, ownerUrl } = app.ledger;
    await bookDays(app, sumsBefore);
    const inSteps = await tell(app, spans);
    await query(ownerUrl, "CREATE TABLE kept AS SELECT * FROM billing.sum_state");
    const reset = `SET session_replication_role = replica; DELETE FROM billing.hour_sum; DELETE FROM billing.day_sum;
      DELETE FROM billing.booked_sum; DELETE FROM billing.unsummed_day; DELETE FROM billing.route_sum;
      DELETE FROM billing.account_sum; DELETE FROM billing.business_unsummed_day;
      UPDATE billing.sum_state SET fence_ms = 0, summed_until_ms = 0, backfill_until_ms = 0, day_until_ms = 0,
        hours_from_ms = 0, business_from_ms = 0, business_until_ms = 0`;
    await query(ownerUrl, reset);
    const fromLines = await tell(app, spans);
    assert.deepEqual(inSteps, fromLines);
    await moveFence(pool, today + hourMs / 2);
    // What is told of parts of old days is read from their lines.
    await forgetHours(pool, today - 3 * dayMs);
    for (let step = await sumStep(pool); step !== "idle"; step = await sumStep(pool)) {
      // Few, because there are many steps: all are asked for at the end.
      assert.deepEqual(await tell(app, spans.slice(2, 6)), fromLines.slice(2, 6), `after ${step}`);
      assert.deepEqual(await findWrongSums(pool, undefined), [], `after ${step}`);
    }
    assert.deepEqual(await tell(app, spans), fromLines);
    const { dayUntilMs, unsummed } = await readSumState(pool);
    assert.deepEqual([dayUntilMs, unsummed], [today, []]);
    assert.deepEqual(await findWrongSums(pool, ["acct_test"]), []);
    await assertEqualSums(app);
    const { rows } = await pool.query("SELECT min(booked_at) AS first FROM billing.hour_sum");
    assert.ok(rows[0].first.getTime() >= today - 3 * dayMs);
    await forgetHours(pool, today - 2 * dayMs);
    assert.deepEqual(await tell(app, spans), fromLines, "after more hours are forgotten");
    await assertEqualSums(app);
    await assert.rejects(forgetHours(pool, today + dayMs), /a day that is not whole/);
  });
}

test("a line that is booked by a clock that is late gets an id of an hour that is not summed up", async () => {
  await using app = await startApp(today - 20 * hourMs);
  await makeSums(app.ledger.pool, today - 2 * hourMs + 400_000);
  await app.book({});
  await app.billing.credit({ accountId: "acct_test", amountNanos: 5n, paymentId: "p" });
  const { rows } = await query(app.ledger.ownerUrl, "SELECT line_id AS id FROM billing.ledger_line ORDER BY 1");
  for (const { id } of rows) assert.ok(id >= firstUuidAt(today - 2 * hourMs), id);
  await makeSums(app.ledger.pool, today - hourMs + 400_000);
  assert.deepEqual(await findWrongSums(app.ledger.pool, undefined), []);
  const { rows: sums } = await query(app.ledger.ownerUrl, "SELECT sum(lines)::int AS lines FROM billing.hour_sum");
  assert.equal(sums[0].lines, 2);
});

test("what is behind is told of hours and of days, by the database's clock, and how many days wait", async () => {
  await using app = await startApp(today);
  const { pool, ownerUrl } = app.ledger;
  /** Whether it is behind since that time. */
  const assertBehindSince = async (sinceMs: number): Promise<void> => {
    const earliestMs = Date.now();
    const { behindSeconds } = await readSumsLag(pool);
    const slackMs = 1;
    assert.ok(behindSeconds * 1_000 >= earliestMs - sinceMs - slackMs, `${behindSeconds}`);
    assert.ok(behindSeconds * 1_000 <= Date.now() - sinceMs + slackMs, `${behindSeconds}`);
  };
  await app.book({});
  await makeSums(pool, today - 2 * hourMs + 400_000);
  await assertBehindSince(today - 2 * hourMs);
  assert.equal((await readSumsLag(pool)).unsummedDays, 0);
  // Hours are in time, their day is not: since it was over.
  await query(ownerUrl, `UPDATE billing.sum_state SET day_until_ms = ${today - 4 * dayMs}`);
  await assertBehindSince(today - 3 * dayMs);
  await query(
    ownerUrl,
    `INSERT INTO billing.unsummed_day (day, is_closed, is_detached)
     VALUES ('2026-01-01', false, false), ('2026-01-02', true, false), ('2026-01-03', true, true)`,
  );
  assert.equal((await readSumsLag(pool)).unsummedDays, 2, "what is detached is not waited for");
});

test("the fence waits for those who are booking, and moves when they have committed", async () => {
  await using app = await startApp(today);
  const { pool } = app.ledger;
  const booking = await pool.connect();
  try {
    await booking.query("BEGIN; SELECT billing.sums_fence()");
    assert.deepEqual(await makeSums(pool, today), []);
    assert.equal((await readSumState(pool)).fenceMs, 0);
    await booking.query("COMMIT");
  } finally {
    booking.release();
  }
  await makeSums(pool, today);
  assert.equal((await readSumState(pool)).fenceMs, today - hourMs);
});

test("of two processes one sums up, and the sums are of both", async () => {
  await using app = await startApp(today - 2 * dayMs);
  const { pool } = app.ledger;
  await app.book({ rid: v7({ msecs: today - 2 * dayMs }) }, { rid: v7({ msecs: today - 2 * dayMs }) });
  await moveFence(pool, today);
  const steps = (await Promise.all([sumStep(pool), sumStep(pool), sumStep(pool)])).filter((step) => step !== "busy");
  assert.ok(steps.length > 0);
  await makeSums(pool, today);
  assert.deepEqual(await findWrongSums(pool, undefined), []);
});
