import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { query } from "#shared/testing/postgres.ts";
import { createRid } from "#shared/money/rid.ts";
import { bookBatch } from "./intake/book.ts";
import { readMessage } from "./records/read-event.ts";
import { readUnpushedKeys } from "./store/funds.ts";
import { forgetSettled, insertQuarantine, sumUpQuarantine } from "./store/quarantine.ts";
import { countDoubts, readOpenQuarantine } from "./store/reconcile-quarantine.ts";
import { startApp as startAppOn } from "./testing/app.ts";
import { bookingOn } from "./testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent } from "./testing/events.ts";
import { findImbalance, readLedger, startLedger } from "./testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const dayMs = 86_400_000;

/** The calls, and ways to put records into quarantine. */
async function startApp() {
  const app = await startAppOn(server.postgres);
  const { pool, ownerUrl } = app.ledger;
  // Three days ago, the record of a call of now was too far ahead.
  const early = { ...bookingOn(pool), clock: { nowMs: () => Date.now() - 3 * dayMs } };
  const newest = async () => (await app.billing.listQuarantine({ limit: 1 })).records[0]?.quarantineId ?? 0n;
  const putEarly = async (event = makeEvent()) => {
    const message = readMessage(encodeBatch([encodeEvent(event)]), 1, early.clock.nowMs());
    await bookBatch(early, message);
    return await newest();
  };
  const putUnreadable = async (payload: Uint8Array) => {
    const unreadable = { reason: "unreadable", detail: "of a later version", rid: undefined } as const;
    const hexadecimal = hash("sha256", payload, "hex");
    await insertQuarantine(pool, [{ ...unreadable, payload, hash: hexadecimal, streamSequence: undefined }]);
    return await newest();
  };
  const retry = async (...quarantineIds: bigint[]) =>
    (await app.billing.retryQuarantine({ quarantineIds })).records.map(({ isBooked, reason }) => [isBooked, reason]);
  const openIds = async () =>
    (await app.billing.listQuarantine({ onlyOpen: true })).records.map(({ quarantineId }) => quarantineId);
  const lines = async () => (await readLedger(ownerUrl)).lines;
  return { ...app, newest, putEarly, putUnreadable, retry, openIds, lines };
}

test("how many records are open is told, and how long the oldest of them is there", async () => {
  await using app = await startApp();
  const { pool } = app.ledger;
  assert.deepEqual(await sumUpQuarantine(pool), { open: 0, oldestSeconds: 0 });
  await app.putEarly();
  await app.putUnreadable(Uint8Array.of(1));
  const { open, oldestSeconds } = await sumUpQuarantine(pool);
  assert.equal(open, 2);
  assert.ok(oldestSeconds > 0 && oldestSeconds < 60, `${oldestSeconds} s`);
  await app.retry(...(await app.openIds()));
  assert.equal((await sumUpQuarantine(pool)).open, 1, "the unreadable one cannot be booked");
});

test("ListQuarantine pages newest first, with the bytes as they came, the call and what they say", async () => {
  await using app = await startApp();
  const rid = createRid();
  const wrong = [makeEvent({ rid, costNanos: 1n }), makeEvent({ rid: "odd", costNanos: 2n })].map(encodeEvent);
  const damaged = Uint8Array.of(0x0a, 0xff, 0x01);
  for (const payload of [...wrong.map((bytes) => encodeBatch([bytes])), damaged]) {
    await bookBatch(bookingOn(app.ledger.pool), readMessage(payload, 1, Date.now()));
  }
  const { records } = await app.billing.listQuarantine({});
  assert.deepEqual(
    records.map((record) => [record.reason.split(":")[0], record.rid, record.usage?.costNanos, record.isOpen]),
    [
      ["unreadable", "", undefined, true],
      ["rid_invalid", "", 2n, true],
      ["cost_mismatch", rid, 1n, true],
    ],
  );
  assert.deepEqual(Buffer.from(records[2]?.payload ?? []), Buffer.from(wrong[0] ?? []));
  const first = await app.billing.listQuarantine({ limit: 2 });
  assert.deepEqual(first.records, records.slice(0, 2));
  const beforeQuarantineId = first.records[1]?.quarantineId ?? 0n;
  assert.deepEqual((await app.billing.listQuarantine({ limit: 2, beforeQuarantineId })).records, records.slice(2));
});

test("a record is open until it is booked or something is booked by hand for it, as reconciliation counts", async () => {
  await using app = await startApp();
  const [booked, byHand, refunded] = [createRid(), createRid(), createRid()];
  const event = makeEvent({ rid: booked });
  const ids = [
    await app.putEarly(event),
    await app.putEarly(makeEvent({ rid: byHand })),
    await app.putEarly(makeEvent({ keyId: "k" })),
  ];
  await app.book({ rid: refunded });
  const conflict = encodeBatch([encodeEvent(makeEvent({ rid: refunded, outputTokens: 9n }))]);
  await bookBatch(bookingOn(app.ledger.pool), readMessage(conflict, 1, Date.now()));
  ids.push(await app.newest());
  const open = async () => {
    assert.deepEqual(
      (await readOpenQuarantine(app.ledger.pool)).map(({ id }) => id),
      await app.openIds(),
    );
    return (await app.openIds()).map((id) => ids.indexOf(id));
  };
  assert.deepEqual(await open(), [3, 2, 1, 0]);
  await bookBatch(bookingOn(app.ledger.pool), readMessage(encodeBatch([encodeEvent(event)]), 1, Date.now()));
  assert.deepEqual(await open(), [3, 2, 1]);
  const correction = { accountId: "acct_test", amountNanos: -4n, reason: "r" };
  await app.billing.correct({ ...correction, correctionId: "c1", rid: byHand });
  assert.deepEqual(await open(), [3, 2]);
  await app.billing.correct({ ...correction, correctionId: "c2", reason: `see quarantine ${ids[2]}9 and 5` });
  assert.deepEqual(await open(), [3, 2]);
  await app.billing.correct({ ...correction, correctionId: "c3", reason: `for quarantine 999, quarantine ${ids[2]}.` });
  assert.deepEqual(await open(), [3]);
  await app.billing.refund({ accountId: "acct_test", rid: refunded, refundId: "r", reason: "r" });
  assert.deepEqual(await open(), []);
  const all = await app.billing.listQuarantine({});
  assert.deepEqual(
    all.records.map(({ isOpen }) => isOpen),
    [false, false, false, false],
  );
});

test("a forged rid of any time leaves the quarantine readable, and a line by hand that names it settles it", async () => {
  await using app = await startApp();
  const rids = [1, Date.UTC(9_999, 0)].map((msecs) => v7({ msecs }));
  // Nobody can name the last of them.
  for (const rid of [...rids, v7({ msecs: 2 ** 48 - 1 })]) await app.putEarly(makeEvent({ rid }));
  assert.equal((await app.openIds()).length, 3);
  assert.equal((await sumUpQuarantine(app.ledger.pool)).open, 3);
  for (const [index, rid] of rids.entries()) {
    const correction = { accountId: "acct_test", amountNanos: -4n, reason: "r", correctionId: `odd ${index}`, rid };
    await app.billing.correct(correction);
    assert.equal((await app.openIds()).length, 2 - index, rid);
    assert.equal((await readOpenQuarantine(app.ledger.pool)).length, 2 - index, rid);
  }
});

test("RetryQuarantine books what may be booked by now, once, and tells auth-quota", async () => {
  await using app = await startApp();
  const rid = createRid();
  const id = await app.putEarly(makeEvent({ rid }));
  assert.deepEqual(await app.retry(id), [[true, ""]]);
  assert.deepEqual(
    app.told.map(({ calls, accounts }) => [calls.map((call) => call.rid), accounts[0]?.balanceNanos]),
    [[[rid], -400n]],
  );
  assert.equal((await readUnpushedKeys(app.ledger.pool, 10)).length, 1, "what was not heard is told again");
  assert.deepEqual(await app.retry(id, id), [
    [true, ""],
    [true, ""],
  ]);
  assert.deepEqual(
    (await app.lines()).map((line) => [line.rid, line.amount]),
    [[rid, "-400"]],
  );
  assert.deepEqual(await app.openIds(), []);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("a record that had been booked counts as booked, also one that its call's final has overtaken", async () => {
  await using app = await startApp();
  const [same, final] = [createRid(), createRid()];
  const event = makeEvent({ rid: same });
  const ids = [await app.putEarly(event), await app.putEarly(makeEvent({ rid: final, kind: RecordKind.PROVISIONAL }))];
  await bookBatch(bookingOn(app.ledger.pool), readMessage(encodeBatch([encodeEvent(event)]), 1, Date.now()));
  await app.book({ rid: final });
  assert.deepEqual(await app.retry(...ids), [
    [true, ""],
    [true, ""],
  ]);
  assert.equal((await app.lines()).length, 2);
  assert.deepEqual(await app.openIds(), []);
});

test("bytes that were unreadable are read again, as an event and as a whole message, and are settled then", async () => {
  await using app = await startApp();
  const events = Array.from({ length: 3 }, () => encodeEvent(makeEvent()));
  const ids = [await app.putUnreadable(events[0] ?? Buffer.of()), await app.putUnreadable(encodeBatch(events))];
  const garbage = await app.putUnreadable(Uint8Array.of(0x0a, 0xff, 0x01));
  const [first, second, third] = await app.retry(...ids, garbage);
  assert.deepEqual(
    [first, second],
    [
      [true, ""],
      [true, ""],
    ],
  );
  assert.equal(third?.[0], false);
  assert.match(String(third?.[1]), /^unreadable: /);
  assert.equal((await app.lines()).length, 3);
  assert.deepEqual(await app.openIds(), [garbage]);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("what still cannot be booked stays, each with its reason, and does not keep the others back", async () => {
  await using app = await startApp();
  const rid = createRid();
  const ids = [
    await app.putEarly(makeEvent({ costNanos: 1n })),
    await app.putEarly(makeEvent({ rid, outputTokens: 9n })),
    await app.putEarly(makeEvent({ rid: createRid() })),
  ];
  await app.book({ rid });
  const [mismatch, conflict, booked, unknown] = await app.retry(...ids, 999n);
  assert.match(String(mismatch), /^false,cost_mismatch: the event says 1/);
  assert.deepEqual(conflict, [false, "content_conflict: other content is booked for this rid and kind"]);
  assert.deepEqual(booked, [true, ""]);
  assert.deepEqual(unknown, [false, "no record has this number"]);
  assert.equal((await app.lines()).length, 2);
  assert.equal((await app.billing.listQuarantine({})).records.length, 3, "nothing is kept twice");
  assert.deepEqual(await app.openIds(), ids.slice(0, 2).toReversed());
});

test("what was settled by hand is not booked again: it would be charged twice", async () => {
  await using app = await startApp();
  const [rid, within] = [createRid(), createRid()];
  const ids = [
    await app.putEarly(makeEvent({ rid })),
    await app.putUnreadable(encodeEvent(makeEvent())),
    await app.putUnreadable(encodeBatch([makeEvent(), makeEvent({ rid: within })].map(encodeEvent))),
  ];
  const correction = { accountId: "acct_test", amountNanos: -400n, reason: "by hand" };
  await app.billing.correct({ ...correction, correctionId: "c1", rid });
  await app.billing.correct({ ...correction, correctionId: "c2", reason: `quarantine ${ids[1]}` });
  await app.billing.correct({ ...correction, correctionId: "c3", rid: within });
  assert.deepEqual(await app.retry(...ids), [
    [false, `settled by hand: a correction names the call ${rid}`],
    [false, `settled by hand: a line names the call, or a correction "quarantine ${ids[1]}"`],
    [false, `settled by hand: a correction names the call ${within}`],
  ]);
  assert.deepEqual(
    (await app.lines()).map(({ kind }) => kind),
    [5, 5, 5],
  );
});

test("a record with counts that cannot be is booked, kept once for a person, and settled by accepting it or by hand", async () => {
  await using app = await startApp();
  const { pool } = app.ledger;
  const [accepted, byHand] = [createRid(), createRid()];
  const toldUsage = { inputTokens: 9_000_000_000_000_000n };
  const event = makeEvent({ rid: accepted, toldUsage });
  const bytes = encodeBatch([encodeEvent(event)]);
  for (let time = 0; time < 2; time += 1) await bookBatch(bookingOn(pool), readMessage(bytes, 1, Date.now()));
  await app.book({ rid: byHand, toldUsage: { outputTokens: 1n } });
  await app.book({ rid: createRid(), kind: RecordKind.PROVISIONAL, toldUsage, relaySession: "" });
  assert.deepEqual(
    (await app.lines()).map(({ amount }) => amount),
    ["-400", "-400", "-400"],
  );
  const { records } = await app.billing.listQuarantine({});
  assert.deepEqual(
    records.map(({ rid, isOpen }) => [rid, isOpen]),
    [
      [byHand, true],
      [accepted, true],
    ],
  );
  assert.equal(
    records[1]?.reason,
    "usage_impossible: demo told inputTokens 9000000000000000; charged for inputTokens 100, outputTokens 20",
  );
  assert.deepEqual(await readOpenQuarantine(pool), [], "no money is missing for them");
  assert.equal(await countDoubts(pool), 2n);
  assert.equal((await sumUpQuarantine(pool)).open, 2);
  assert.deepEqual(await app.retry(records[1]?.quarantineId ?? 0n), [[true, ""]]);
  await app.billing.refund({ accountId: "acct_test", rid: byHand, refundId: "r", reason: "r" });
  assert.deepEqual(await app.openIds(), []);
  assert.equal(await countDoubts(pool), 0n);
  assert.equal((await app.lines()).length, 4, "nothing is charged twice");
});

test("a record is forgotten 400 days after it was settled; an open one never", async () => {
  await using app = await startApp();
  const { pool, ownerUrl } = app.ledger;
  const event = makeEvent();
  const settled = await app.putEarly(event);
  await app.putUnreadable(Uint8Array.of(1));
  await query(ownerUrl, "UPDATE billing.usage_quarantine SET received_at = now() - interval '500 days'");
  await app.billing.correct({ accountId: "a", amountNanos: -1n, correctionId: "c", reason: "r", rid: event.rid });
  assert.equal(await forgetSettled(pool), 0n, "it was settled now");
  const later = (days: number): string =>
    `UPDATE billing.quarantine_booked SET booked_at = now() - make_interval(days => ${days})
     WHERE quarantine_id = ${settled}`;
  await query(ownerUrl, later(399));
  assert.equal(await forgetSettled(pool), 0n);
  await query(ownerUrl, later(401));
  assert.equal(await forgetSettled(pool), 1n);
  assert.equal((await app.billing.listQuarantine({})).records.length, 1);
  assert.equal((await app.openIds()).length, 1);
});
