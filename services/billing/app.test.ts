import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { LineKind, UsageGrouping } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import type { ServiceError } from "#shared/process/errors.ts";
import { createRid } from "#shared/money/rid.ts";
import { until } from "#shared/testing/until.ts";
import { startApp as startAppOn } from "./testing/app.ts";
import { findImbalance, readLedger, startLedgerAlone } from "./testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedgerAlone>>;
before(async () => {
  server = await startLedgerAlone();
});
after(() => server[Symbol.asyncDispose]());

const startApp = () => startAppOn(server.postgres);

const payment = { accountId: "acct_test", amountNanos: 5_000n, paymentId: "pay_1", note: "first" };

test("Credit books a line and tells auth-quota, whose absence does not make it fail", async () => {
  await using app = await startApp();
  const { line, balanceNanos } = await app.billing.credit(payment);
  assert.equal(balanceNanos, 5_000n);
  assert.equal(line?.kind, LineKind.CREDIT);
  assert.equal(line?.amountNanos, 5_000n);
  assert.equal(line?.reference, "pay_1");
  assert.equal(line?.note, "first");
  assert.deepEqual(
    app.told.flatMap(({ accounts }) => accounts.map(({ accountId, balanceNanos: told }) => [accountId, told])),
    [["acct_test", 5_000n]],
  );
  const { creditedNanos, chargedNanos, version } = await app.billing.getBalance({ accountId: "acct_test" });
  assert.deepEqual([creditedNanos, chargedNanos, version], [5_000n, 0n, 1n]);
});

test("Credit is idempotent by payment_id: the same gives the earlier line, other is already_exists", async () => {
  await using app = await startApp();
  const first = await app.billing.credit(payment);
  const second = await app.billing.credit(payment);
  assert.equal(second.line?.lineId, first.line?.lineId);
  assert.equal(second.balanceNanos, 5_000n);
  for (const other of [{ amountNanos: 5_001n }, { accountId: "acct_2" }, { note: "second" }]) {
    await assert.rejects(app.billing.credit({ ...payment, ...other }), { code: "already_exists" });
  }
  assert.equal((await readLedger(app.ledger.ownerUrl)).lines.length, 1);
});

test("identical credits at the same time book one line; different ones with one payment_id book one, too", async () => {
  await using app = await startApp();
  const same = await Promise.all(Array.from({ length: 10 }, () => app.billing.credit(payment)));
  assert.equal(new Set(same.map(({ line }) => line?.lineId)).size, 1);
  const different = await Promise.allSettled(
    Array.from({ length: 10 }, (_, index) =>
      app.billing.credit({ ...payment, paymentId: "pay_2", accountId: `acct_${index}` }),
    ),
  );
  assert.equal(different.filter(({ status }) => status === "fulfilled").length, 1);
  for (const result of different) {
    if (result.status === "rejected") assert.equal(result.reason.code, "already_exists");
  }
  assert.equal((await readLedger(app.ledger.ownerUrl)).lines.length, 2);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("Credit refuses what would lift a balance above the most that an account may hold", async () => {
  await using app = await startApp();
  await app.billing.credit({ ...payment, amountNanos: maxAccountNanos });
  const more = { ...payment, paymentId: "pay_2", amountNanos: 1n };
  await assert.rejects(app.billing.credit(more), { code: "failed_precondition", message: /would leave the range/ });
  await app.book({});
  await app.billing.credit(more);
});

test("Correct books either sign with its reason, once per correction_id, and may take a balance below 0", async () => {
  await using app = await startApp();
  const correction = { accountId: "acct_test", amountNanos: -700n, correctionId: "c1", reason: "goodwill taken back" };
  const first = await app.billing.correct(correction);
  assert.equal(first.balanceNanos, -700n);
  assert.equal(first.line?.kind, LineKind.CORRECTION);
  assert.equal((await app.billing.correct(correction)).line?.lineId, first.line?.lineId);
  await assert.rejects(app.billing.correct({ ...correction, amountNanos: -701n }), { code: "already_exists" });
  const { balanceNanos } = await app.billing.correct({ ...correction, amountNanos: 1_000n, correctionId: "c2" });
  assert.equal(balanceNanos, 300n);
  const { creditedNanos, chargedNanos } = await app.billing.getBalance({ accountId: "acct_test" });
  assert.deepEqual([creditedNanos, chargedNanos], [0n, 0n]);
  await assert.rejects(
    app.billing.correct({ ...correction, amountNanos: -maxAccountNanos - 301n, correctionId: "c3" }),
    { code: "failed_precondition" },
  );
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("requests that make no sense are refused in words that name the field", async () => {
  await using app = await startApp();
  const { billing } = app;
  const correction = { accountId: "acct_test", amountNanos: 1n, correctionId: "c", reason: "r" };
  const long = "x".repeat(501);
  const at = (ms: number) => timestampFromMs(ms);
  const refused: [Promise<unknown>, RegExp][] = [
    [billing.credit({ ...payment, accountId: "" }), /^account_id must be/],
    [billing.credit({ ...payment, accountId: "a b" }), /^account_id must be/],
    [billing.credit({ ...payment, accountId: "a".repeat(65) }), /^account_id must be/],
    [billing.credit({ ...payment, amountNanos: 0n }), /^amount_nanos must be more than 0/],
    [billing.credit({ ...payment, amountNanos: -1n }), /^amount_nanos must be more than 0/],
    [billing.credit({ ...payment, paymentId: "" }), /^payment_id must have 1 to 200/],
    [billing.credit({ ...payment, paymentId: "x".repeat(201) }), /^payment_id must have/],
    [billing.credit({ ...payment, paymentId: "a\0b" }), /^payment_id must not contain NUL/],
    [billing.credit({ ...payment, paymentId: "voucher:b:1" }), /^payment_id must not begin with voucher:/],
    [billing.credit({ ...payment, note: long }), /^note must have 0 to 500/],
    [billing.correct({ ...correction, amountNanos: 0n }), /^amount_nanos must not be 0/],
    [billing.correct({ ...correction, reason: "" }), /^reason must have 1 to 500/],
    [billing.correct({ ...correction, correctionId: "" }), /^correction_id must have/],
    [billing.correct({ ...correction, rid: "not-a-rid" }), /^rid must be a UUIDv7/],
    [billing.getBalance({ accountId: "" }), /^account_id must be/],
    [billing.getFunds({ accountIds: Array.from({ length: 1_001 }, () => "a") }), /^at most 1000 account_ids/],
    [billing.getFunds({ keyIds: ["a,b"] }), /^key_ids must be/],
    [billing.listLedgerLines({ accountId: "a", limit: 1_001 }), /^limit must be 0 to 1000/],
    [billing.listLedgerLines({ accountId: "a", limit: -1 }), /^limit must be/],
    [billing.listLedgerLines({ accountId: "a", beforeLineId: "x" }), /^before_line_id must be/],
    [billing.listLedgerLines({ accountId: "a", kind: 99 as LineKind }), /^kind is unknown/],
    [billing.queryUsage({ accountId: "a", until: at(1) }), /^from is missing/],
    [billing.queryUsage({ accountId: "a", from: at(2), until: at(2) }), /^until must be after from/],
    [billing.queryUsage({ accountId: "a", from: at(0), until: at(401 * 86_400_000) }), /400 days/],
    [billing.queryUsage({ accountId: "", from: at(0), until: at(1) }), /^account_id must be/],
    [billing.queryUsage({ accountId: "a", from: at(0), until: at(1), groupBy: 9 as UsageGrouping }), /^group_by/],
    [billing.queryUsage({ accountId: "a", from: at(0), until: at(1), keyId: "a b" }), /^key_id must be/],
    [billing.queryUsage({ accountId: "a", from: at(0), until: at(1), model: "\0" }), /^model must not contain NUL/],
    [billing.listQuarantine({ limit: 2_000 }), /^limit must be/],
    [billing.listQuarantine({ beforeQuarantineId: -1n }), /^before_quarantine_id must not/],
    [billing.retryQuarantine({}), /^quarantine_ids must be 1 to 100/],
    [billing.listLowBalances({ limit: 2_000 }), /^limit must be/],
    [billing.getCall({ rid: "" }), /^rid must be a UUIDv7/],
    [billing.getCall({ rid: "ffffffff-ffff-7000-8000-000000000000" }), /^rid must be a UUIDv7/],
    [billing.getCall({ rid: createRid(), accountId: "a b" }), /^account_id must be/],
  ];
  for (const [call, message] of refused) await assert.rejects(call, { code: "invalid_argument", message });
});

test("GetFunds tells balances and spendings in the order asked, 0 and version 0 for the unknown", async () => {
  await using app = await startApp();
  await app.billing.credit(payment);
  await app.book({}, { keyId: "key_2" });
  const { accounts, keys } = await app.billing.getFunds({
    accountIds: ["acct_none", "acct_test", "acct_test"],
    keyIds: ["key_2", "key_none", "key_test"],
  });
  assert.deepEqual(
    accounts.map(({ accountId, balanceNanos, version }) => [accountId, balanceNanos, version]),
    [
      ["acct_none", 0n, 0n],
      ["acct_test", 4_200n, 2n],
      ["acct_test", 4_200n, 2n],
    ],
  );
  assert.deepEqual(
    keys.map(({ keyId, spentNanos, version }) => [keyId, spentNanos, version]),
    [
      ["key_2", 400n, 1n],
      ["key_none", 0n, 0n],
      ["key_test", 400n, 1n],
    ],
  );
});

test("ListLedgerLines pages newest first, by kind and by call, and carries the whole usage event", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.billing.credit(payment);
  await app.book({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n });
  await app.book({ rid }, ...Array.from({ length: 6 }, () => ({})));
  await app.book({ accountId: "acct_other", keyId: "key_other" });
  await app.billing.correct({ accountId: "acct_test", amountNanos: 5n, correctionId: "c", reason: "r", rid });

  const whole = await app.billing.listLedgerLines({ accountId: "acct_test" });
  assert.equal(whole.lines.length, 10);
  assert.equal(whole.lines[0]?.kind, LineKind.CORRECTION);
  assert.equal(whole.lines.at(-1)?.kind, LineKind.CREDIT);
  const paged = [];
  for (let beforeLineId = ""; ;) {
    const { lines } = await app.billing.listLedgerLines({ accountId: "acct_test", beforeLineId, limit: 4 });
    paged.push(...lines);
    beforeLineId = lines.at(-1)?.lineId ?? "";
    if (lines.length < 4) break;
  }
  assert.deepEqual(paged, whole.lines);

  const ofCall = await app.billing.listLedgerLines({ accountId: "acct_test", rid });
  assert.deepEqual(
    ofCall.lines.map(({ kind, amountNanos }) => [kind, amountNanos]),
    [
      [LineKind.CORRECTION, 5n],
      [LineKind.FINAL_ADJUSTMENT, -190n],
      [LineKind.PROVISIONAL_CHARGE, -210n],
    ],
  );
  assert.equal(ofCall.lines[1]?.usage?.usage?.outputTokens, 20n);
  assert.equal(ofCall.lines[1]?.usage?.modelServed, "demo-chat-2026-01");
  const credits = await app.billing.listLedgerLines({ accountId: "acct_test", kind: LineKind.CREDIT });
  assert.equal(credits.lines.length, 1);
  assert.deepEqual((await app.billing.listLedgerLines({ accountId: "acct_other", rid })).lines, []);
});

test("QueryUsage sums calls, money and units by day, model and key, and counts an adjusted call once", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.book({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n });
  await app.book({ rid }, { modelRequested: "other" }, { keyId: "key_2" });
  const span = {
    accountId: "acct_test",
    from: timestampFromMs(Date.now() - 60_000),
    until: timestampFromMs(Date.now() + 60_000),
  };
  const sumsBy = async (groupBy: UsageGrouping) =>
    (await app.billing.queryUsage({ ...span, groupBy })).sums.map(({ group, calls, chargedNanos, usage }) => [
      group,
      calls,
      chargedNanos,
      usage?.inputTokens,
      usage?.outputTokens,
    ]);
  const all = [3n, 1_200n, 300n, 60n];
  assert.deepEqual(await sumsBy(UsageGrouping.UNSPECIFIED), [["", ...all]]);
  assert.deepEqual(await sumsBy(UsageGrouping.MODEL), [
    ["demo-chat", 2n, 800n, 200n, 40n],
    ["other", 1n, 400n, 100n, 20n],
  ]);
  assert.deepEqual(await sumsBy(UsageGrouping.KEY), [
    ["key_2", 1n, 400n, 100n, 20n],
    ["key_test", 2n, 800n, 200n, 40n],
  ]);
  const days = await sumsBy(UsageGrouping.DAY);
  assert.equal(
    days.reduce((calls, [, count]) => calls + Number(count), 0),
    3,
  );
  const before = { ...span, from: timestampFromMs(Date.now() - 120_000), until: timestampFromMs(Date.now() - 60_000) };
  assert.deepEqual((await app.billing.queryUsage(before)).sums, []);
});

test("QueryUsage sums only the calls of a key, or those that named a model", async () => {
  await using app = await startApp();
  await app.book({}, { modelRequested: "other" }, { keyId: "key_2" }, { keyId: "key_2", modelRequested: "other" });
  const span = { from: timestampFromMs(Date.now() - 60_000), until: timestampFromMs(Date.now() + 60_000) };
  const callsOf = async (filter: { keyId?: string; model?: string }, groupBy: UsageGrouping) => {
    const { sums } = await app.billing.queryUsage({ accountId: "acct_test", ...span, ...filter, groupBy });
    return sums.map(({ group, calls }) => [group, calls]);
  };
  const { MODEL, KEY, UNSPECIFIED } = UsageGrouping;
  assert.deepEqual(await callsOf({ keyId: "key_test" }, KEY), [["key_test", 2n]]);
  assert.deepEqual(await callsOf({ model: "other" }, KEY), [
    ["key_2", 1n],
    ["key_test", 1n],
  ]);
  assert.deepEqual(await callsOf({ keyId: "key_2", model: "other" }, MODEL), [["other", 1n]]);
  assert.deepEqual(await callsOf({ keyId: "key_3" }, UNSPECIFIED), []);
  assert.deepEqual(await callsOf({ model: "oth" }, UNSPECIFIED), []);
});

test("failed calls are those whose last line says so; one with a provisional and a final line counts once", async () => {
  await using app = await startApp();
  const { PROVISIONAL } = RecordKind;
  const [healed, failedLater, lost] = [createRid(), createRid(), createRid()];
  const provisional = { kind: PROVISIONAL, outputTokens: 1n, endCause: EndCause.RELAY_LOST };
  await app.book(...[healed, failedLater, lost].map((rid) => ({ rid, ...provisional })));
  await app.book({ rid: healed }, { rid: failedLater, endCause: EndCause.UPSTREAM_CUT });
  await app.book({}, { endCause: EndCause.CLIENT_GONE }, { endCause: EndCause.UPSTREAM_ERROR });
  await app.book({ modelRequested: "other", endCause: EndCause.DRAINED });
  const span = { from: timestampFromMs(Date.now() - 60_000), until: timestampFromMs(Date.now() + 60_000) };
  const failedBy = async (groupBy: UsageGrouping) => {
    const { sums } = await app.billing.queryUsage({ accountId: "acct_test", ...span, groupBy });
    return sums.map(({ group, calls, failedCalls }) => [group, calls, failedCalls]);
  };
  assert.deepEqual(await failedBy(UsageGrouping.UNSPECIFIED), [["", 7n, 4n]]);
  assert.deepEqual(await failedBy(UsageGrouping.MODEL), [
    ["demo-chat", 6n, 3n],
    ["other", 1n, 1n],
  ]);
});

test("ListLowBalances lists the lowest first, only those below, and tells how many there are", async () => {
  await using app = await startApp();
  const amounts = { acct_a: -700n, acct_b: 100n, acct_c: -700n, acct_d: 99n, acct_e: -5n };
  for (const [accountId, amountNanos] of Object.entries(amounts)) {
    await app.billing.correct({ accountId, amountNanos, correctionId: accountId, reason: "r" });
  }
  const { accounts, total } = await app.billing.listLowBalances({ belowNanos: 100n, limit: 3 });
  assert.equal(total, 4n);
  assert.deepEqual(
    accounts.map(({ accountId, balanceNanos, version }) => [accountId, balanceNanos, version]),
    [
      ["acct_a", -700n, 1n],
      ["acct_c", -700n, 1n],
      ["acct_e", -5n, 1n],
    ],
  );
  const none = await app.billing.listLowBalances({ belowNanos: -700n });
  assert.deepEqual([none.accounts, none.total], [[], 0n]);
});

test("who reads much takes no connection from those who book", async () => {
  const nowhere = createPool("postgres://nobody@127.0.0.1:1/none", "read", () => undefined);
  await using app = await startAppOn(server.postgres, { readPool: nowhere });
  const { billing, streams } = app;
  const accountId = "acct_read";
  await billing.credit({ ...payment, accountId, paymentId: "read_1" });
  await billing.correct({ accountId, amountNanos: -1n, correctionId: "read_1", reason: "r" });
  assert.equal((await billing.getBalance({ accountId })).balanceNanos, 4_999n);
  assert.equal((await billing.getFunds({ accountIds: [accountId] })).accounts.length, 1);
  const span = { from: timestampFromMs(0), until: timestampFromMs(1_000) };
  const days = { fromDay: "2026-11-20", untilDay: "2026-11-21" };
  for (const reading of [
    billing.listLedgerLines({ accountId }),
    billing.queryUsage({ accountId, ...span }),
    billing.getStatement({ accountId, ...span }),
    billing.getCall({ rid: createRid() }),
    billing.listQuarantine({}),
    billing.listLowBalances({}),
    billing.listVoucherBatches({}),
    billing.listVouchers({ batchId: "b" }),
    billing.compareInvoice({ upstream: "u", ...days }),
    Array.fromAsync(streams.exportLines(days)),
  ]) {
    await assert.rejects(reading, { code: "unavailable" });
  }
});

test("while PostgreSQL is away every call is unavailable, never a wrong answer", async () => {
  await using app = await startApp();
  await app.billing.credit(payment);
  await server.postgres.kill();
  // Its sessions outlive it by a moment, and may still give a right answer.
  const refusal = await until("the last session of the killed server is gone", async () => {
    const answered = await app.billing.getFunds({ accountIds: ["acct_test"] }).catch((error: unknown) => error);
    return answered instanceof Error ? answered : undefined;
  });
  assert.equal((refusal as ServiceError).code, "unavailable");
  await assert.rejects(app.billing.credit({ ...payment, paymentId: "pay_2" }), { code: "unavailable" });
  await server.postgres.restart();
  assert.equal((await app.billing.getBalance({ accountId: "acct_test" })).balanceNanos, 5_000n);
});
