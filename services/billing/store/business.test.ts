import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { v7 } from "uuid";
import { BusinessGrouping, type BusinessSum } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { query } from "#shared/testing/postgres.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";
import { makeSums, moveFence, sumStep } from "./make-sums.ts";
import { findUnequalSums } from "./reconcile-sums.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const today = Math.floor(Date.now() / dayMs) * dayMs;
const dayAt = (atMs: number): string => new Date(atMs).toISOString().slice(0, 10);
const allDays = { fromDay: dayAt(today - 9 * dayMs), untilDay: dayAt(today + 2 * dayMs) };

async function startApp(startMs: number) {
  const time = { nowMs: startMs };
  const app = await startAppOn(server.postgres, { clock: { nowMs: () => time.nowMs } });
  return { ...app, time };
}

type App = Awaited<ReturnType<typeof startApp>>;

const { COMPLETE, CLIENT_GONE, UPSTREAM_ERROR, UPSTREAM_CUT, UPSTREAM_TIMEOUT, HOLD_EXHAUSTED } = EndCause;
const causes = [COMPLETE, CLIENT_GONE, UPSTREAM_ERROR, UPSTREAM_CUT, UPSTREAM_TIMEOUT, HOLD_EXHAUSTED];

/** One step: some hours pass, sums are made or not, and a call is booked, with a lost relay's record before or not. */
const steps = fc.array(
  fc.record({
    hours: fc.integer({ min: 0, max: 30 }),
    isSummed: fc.boolean(),
    ageHours: fc.integer({ min: 0, max: 40 }),
    account: fc.constantFrom("acct_a", "acct_b", "acct_c"),
    model: fc.constantFrom("demo-chat", "demo-large"),
    upstreams: fc.tuple(fc.constantFrom("east", "west", ""), fc.constantFrom("east", "west")),
    costs: fc.tuple(fc.option(fc.nat(9_000), { nil: undefined }), fc.option(fc.nat(9_000), { nil: undefined })),
    cause: fc.constantFrom(...causes),
    outputTokens: fc.constantFrom(0n, 3n, 1_000n),
    isLost: fc.boolean(),
    hasFinal: fc.boolean(),
    byHand: fc.constantFrom("none", "credit", "correct", "refund"),
  }),
  { minLength: 12, maxLength: 18 },
);

type Step = typeof steps extends fc.Arbitrary<(infer S)[]> ? S : never;

async function take({ book, billing, time, ledger }: App, step: Step, index: number): Promise<void> {
  time.nowMs = Math.min(time.nowMs + step.hours * hourMs, today - 5 * hourMs);
  if (step.isSummed) await makeSums(ledger.pool, time.nowMs);
  const { account: accountId, model: modelRequested, outputTokens, isLost, hasFinal } = step;
  const rid = v7({ msecs: time.nowMs - step.ageHours * hourMs });
  const call = { rid, accountId, keyId: `key_${accountId}`, modelRequested };
  const [first, second] = step.upstreams;
  const costOf = (cost: number | undefined) => (cost === undefined ? {} : { upstreamCostNanos: BigInt(cost) });
  const usageSource = outputTokens === 0n ? UsageSource.NONE : UsageSource.PROVIDER;
  const lost = { ...call, upstream: first, outputTokens: 2n, endCause: EndCause.RELAY_LOST, ...costOf(step.costs[0]) };
  if (isLost) await book({ ...lost, kind: RecordKind.PROVISIONAL });
  if (isLost && step.ageHours % 2 === 0) await makeSums(ledger.pool, time.nowMs + 2 * hourMs);
  const units = outputTokens === 0n ? { usage: {} } : { outputTokens };
  const final = { ...call, ...units, upstream: second, usageSource, endCause: step.cause, ...costOf(step.costs[1]) };
  if (hasFinal || !isLost) await book({ ...final, kind: RecordKind.FINAL });
  const reference = `${step.byHand}_${index}`;
  if (step.byHand === "credit") await billing.credit({ accountId, amountNanos: 5_000n, paymentId: reference });
  const correction = { accountId, amountNanos: -7n, correctionId: reference, reason: "r" };
  if (step.byHand === "correct") await billing.correct(correction);
  const refund = { accountId, rid, amountNanos: 1n, refundId: reference, reason: "r" };
  // Nothing is given back for a call that cost nothing.
  if (step.byHand === "refund") await billing.refund(refund).catch(() => undefined);
}

type Line = {
  day: string;
  kind: number;
  rid: string;
  account: string;
  model: string;
  upstream: string;
  amount: bigint;
  cost: bigint | null;
  cause: number;
  source: number;
};

const figures = [
  "calls",
  "failedCalls",
  "upstreamFailedCalls",
  "goneCalls",
  "freeCalls",
  "uncostedCalls",
  "chargedNanos",
  "uncostedNanos",
  "costNanos",
  "refundedNanos",
  "creditedNanos",
  "correctedNanos",
] as const;

type Figures = Record<(typeof figures)[number], bigint>;

const one = (is: boolean): bigint => (is ? 1n : 0n);

/** What the lines say, call by call: the last of its lines tells all but the amount. */
function figuresOf(lines: readonly Line[], groupOf: (line: Line) => string): Record<string, Figures> {
  const sums: Record<string, Figures> = {};
  const add = (group: string, change: Partial<Figures>): void => {
    const sum = (sums[group] ??= Object.fromEntries(figures.map((name) => [name, 0n])) as Figures);
    for (const name of figures) sum[name] += change[name] ?? 0n;
  };
  for (const line of lines.filter(({ kind }) => kind > 3)) {
    const of = { 4: "creditedNanos", 5: "correctedNanos", 6: "refundedNanos" }[line.kind];
    if (of) add(groupOf(line), { [of]: line.amount });
  }
  for (const own of Map.groupBy(
    lines.filter(({ kind }) => kind <= 3),
    ({ rid }) => rid,
  ).values()) {
    const last = own.toSorted((a, b) => b.kind - a.kind)[0];
    if (!last) continue;
    const charged = -own.reduce((sum, { amount }) => sum + amount, 0n);
    const isServed = last.cause === COMPLETE || last.cause === CLIENT_GONE;
    const isUncosted = last.cost === null && last.upstream !== "" && last.source !== UsageSource.NONE;
    add(groupOf(last), {
      calls: 1n,
      failedCalls: one(!isServed),
      upstreamFailedCalls: one([UPSTREAM_ERROR, UPSTREAM_CUT, UPSTREAM_TIMEOUT].some((cause) => cause === last.cause)),
      goneCalls: one(last.cause === CLIENT_GONE),
      freeCalls: one(isServed && charged === 0n),
      uncostedCalls: one(isUncosted),
      chargedNanos: charged,
      uncostedNanos: isUncosted ? charged : 0n,
      costNanos: last.cost ?? 0n,
    });
  }
  return sums;
}

async function readLines({ ledger }: App): Promise<Line[]> {
  const { rows } = await query(
    ledger.ownerUrl,
    `SELECT day::text, kind, rid::text, account_id AS account, coalesce(model_requested, '') AS model,
       coalesce(upstream, '') AS upstream, amount_nanos::text AS amount, upstream_cost_nanos::text AS cost,
       end_cause AS cause, usage_source AS source FROM billing.ledger_line`,
  );
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount), cost: row.cost === null ? null : BigInt(row.cost) }));
}

const told = (sums: readonly BusinessSum[]): Record<string, Figures> =>
  Object.fromEntries(
    sums.map((sum) => [sum.group, Object.fromEntries(figures.map((name) => [name, sum[name]])) as Figures]),
  );

// A call whose record moved it to another model or day leaves a row of nothing but 0.
const withoutEmpty = (sums: Record<string, Figures>): Record<string, Figures> =>
  Object.fromEntries(Object.entries(sums).filter(([, sum]) => figures.some((name) => sum[name] !== 0n)));

const { UNSPECIFIED, DAY, MODEL, UPSTREAM, ACCOUNT } = BusinessGrouping;
const groupings: [BusinessGrouping, (line: Line) => string][] = [
  [UNSPECIFIED, () => ""],
  [DAY, ({ day }) => day],
  [MODEL, ({ model }) => model],
  [UPSTREAM, ({ upstream }) => upstream],
  [ACCOUNT, ({ account }) => account],
];

async function assertSums(app: App): Promise<void> {
  const lines = await readLines(app);
  for (const [groupBy, groupOf] of groupings) {
    const { sums, groups, missingDays } = await app.billing.queryBusiness({ ...allDays, groupBy, limit: 1_000 });
    assert.deepEqual(withoutEmpty(told(sums)), withoutEmpty(figuresOf(lines, groupOf)), `grouping ${groupBy}`);
    assert.equal(Number(groups), sums.length);
    assert.deepEqual(missingDays, []);
  }
  for (let day = -9; day < 2; day += 1) {
    assert.deepEqual(await findUnequalSums(app.ledger.pool, dayAt(today + day * dayMs)), []);
  }
  const [all] = (await app.billing.queryBusiness(allDays)).sums;
  const accounts = new Set(lines.filter(({ kind }) => kind <= 3).map(({ account }) => account));
  assert.deepEqual([all?.accounts, all?.newAccounts], [BigInt(accounts.size), BigInt(accounts.size)]);
}

async function sumAll({ ledger: { pool } }: App): Promise<void> {
  await moveFence(pool, Date.now());
  for (let step = await sumStep(pool); step !== "idle"; step = await sumStep(pool)) assert.notEqual(step, "busy");
}

/** As of a ledger from before there were sums of this kind. */
const forget = `SET session_replication_role = replica; DELETE FROM billing.route_sum; DELETE FROM billing.account_sum;
  DELETE FROM billing.account_start; DELETE FROM billing.business_unsummed_day;
  UPDATE billing.sum_state SET business_from_ms = 0, business_until_ms = 0`;

test("sums of all accounts are those of the ledger, whenever they are made", { timeout: 300_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.nat(30), async (taken, forgottenAt) => {
      await using app = await startApp(today - 6 * dayMs);
      for (const [index, step] of taken.entries()) {
        if (index === forgottenAt) await query(app.ledger.ownerUrl, forget);
        await take(app, step, index);
      }
      await sumAll(app);
      await assertSums(app);
    }),
    { numRuns: 5, seed: 11, endOnFailure: true },
  );
});

test("days that are not summed up are told, and a day's report finds a sum that is not its lines'", async () => {
  await using app = await startApp(today - 2 * dayMs);
  await app.book({ rid: v7({ msecs: today - 2 * dayMs }), upstreamCostNanos: 100n });
  await app.book({ rid: v7({ msecs: today - 2 * dayMs + 1 }), accountId: "acct_other" });
  await moveFence(app.ledger.pool, today);
  while ((await sumStep(app.ledger.pool)) !== "business");
  const day = dayAt(today - 2 * dayMs);
  assert.deepEqual((await app.billing.queryBusiness(allDays)).missingDays, [day]);
  await sumAll(app);
  const { sums, missingDays } = await app.billing.queryBusiness({ ...allDays, accountId: "acct_test" });
  assert.deepEqual(missingDays, []);
  assert.deepEqual(
    sums.map(({ calls, chargedNanos, costNanos, uncostedCalls }) => [calls, chargedNanos, costNanos, uncostedCalls]),
    [[1n, 400n, 100n, 0n]],
  );
  const accounts = await app.billing.queryBusiness({ ...allDays, groupBy: ACCOUNT, limit: 1 });
  assert.deepEqual([accounts.sums.length, accounts.groups], [1, 2n]);
  await query(app.ledger.ownerUrl, "UPDATE billing.account_sum SET cost_nanos = 99 WHERE account_id = 'acct_test'");
  const [wrong] = await findUnequalSums(app.ledger.pool, day);
  assert.match(wrong?.what ?? "", new RegExp(`^account_sum ${day} acct_test$`));
  assert.equal(wrong?.offNanos, "1");
});

test("an answer is kept until more is summed up, and for what was asked alone", async () => {
  await using app = await startApp(today - 2 * dayMs);
  await app.book({ rid: v7({ msecs: today - 2 * dayMs }) });
  await sumAll(app);
  const answered = () => app.billing.queryBusiness(allDays);
  const first = await answered();
  await query(app.ledger.ownerUrl, "UPDATE billing.route_sum SET calls = 7");
  assert.deepEqual(await answered(), first, "nothing was read again");
  assert.equal((await app.billing.queryBusiness({ ...allDays, groupBy: DAY })).sums[0]?.calls, 7n);
  await query(app.ledger.ownerUrl, "UPDATE billing.sum_state SET business_until_ms = business_until_ms + 1");
  assert.equal((await answered()).sums[0]?.calls, 7n);
});

test("what cannot be asked is refused", async () => {
  await using app = await startApp(today);
  for (const [request, words] of [
    [{ ...allDays, fromDay: "2027-02-30" }, /from_day must be a day/],
    [{ fromDay: "2025-01-01", untilDay: "2026-11-01" }, /at most 400 days/],
    [{ ...allDays, groupBy: MODEL, accountId: "acct_test" }, /group_by is not known of one account/],
    [{ ...allDays, groupBy: ACCOUNT, limit: 1_001 }, /limit must be/],
    [{ ...allDays, groupBy: 99 as BusinessGrouping }, /group_by is unknown/],
  ] as const) {
    await assert.rejects(app.billing.queryBusiness(request), words);
  }
});
