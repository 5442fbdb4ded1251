import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { createRid } from "#shared/money/rid.ts";
import { bookBatch, type BookingDeps } from "./book.ts";
import { dayOfMs } from "../records/check.ts";
import { readMessage, type ReadMessage } from "../records/read-event.ts";
import { bookingOn, valueOf } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";
import { createLedger, findImbalance, readLedger, startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

function batchOf(...events: EventFields[]): ReadMessage {
  return readMessage(encodeBatch(events.map((given) => encodeEvent(makeEvent(given)))), 1, Date.now());
}

test("a call that ended within a lease is told of as such, also when its event comes again", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  const batch = batchOf({ isLeased: true });
  for (const _ of [1, 2]) {
    const { calls } = await bookBatch(booking, batch);
    assert.deepEqual(
      calls.map(({ isLeased }) => isLeased),
      [true],
    );
  }
});

test("an event becomes one line of price times usage; its account and key are charged, once", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  const rid = createRid();
  const batch = batchOf({ rid });
  const posting = await bookBatch(booking, batch);
  assert.deepEqual(posting.calls, [
    { rid, accountId: "acct_test", keyId: "key_test", bookedNanos: 400n, isFinal: true, isLeased: false },
  ]);
  assert.deepEqual(
    posting.accounts.map(({ accountId, balanceNanos, version }) => [accountId, balanceNanos, version]),
    [["acct_test", -400n, 1n]],
  );
  assert.deepEqual(posting.keys, [{ keyId: "key_test", accountId: "acct_test", spentNanos: 400n, version: 1n }]);

  const again = await bookBatch(booking, batch);
  assert.deepEqual(again, posting, "a second delivery tells the same and changes nothing, versions included");
  const { lines, balances } = await readLedger(ledger.ownerUrl);
  assert.deepEqual(lines, [{ rid, kind: 1, amount: "-400", account: "acct_test", key: "key_test" }]);
  assert.deepEqual(balances["acct_test"], { balance: "-400", credited: "0", charged: "400", version: "1" });
});

test("money invariant I4: the same (rid, kind) with other content is quarantined, once, and counted", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  const rid = createRid();
  await bookBatch(booking, batchOf({ rid }));
  const other = batchOf({ rid, outputTokens: 21n });
  await bookBatch(booking, other);
  const posting = await bookBatch(booking, other);
  assert.equal(posting.calls[0]?.bookedNanos, 400n);
  const { lines, quarantine } = await readLedger(ledger.ownerUrl);
  assert.equal(lines.length, 1);
  assert.deepEqual(quarantine, ["content_conflict: other content is booked for this rid and kind"]);
  assert.equal(await valueOf(booking.metrics.quarantined), 1);
});

test("an event that PostgreSQL refuses is found among many, kept apart, and all others are booked", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  const good = Array.from({ length: 20 }, () => ({}));
  const batch = batchOf(...good.slice(0, 7), { upstream: "with\0nul" }, ...good.slice(7));
  const posting = await bookBatch(booking, batch);
  assert.equal(posting.calls.length, 20);
  const { lines, quarantine } = await readLedger(ledger.ownerUrl);
  assert.equal(lines.length, 20);
  assert.equal(quarantine.length, 1);
  assert.match(quarantine[0] ?? "", /^refused_by_database: /);
  assert.deepEqual(await findImbalance(ledger.ownerUrl), []);
});

test("what cannot be booked is committed to quarantine together with what can", async () => {
  await using ledger = await createLedger(server.postgres);
  const batch = batchOf({}, { costNanos: 1n });
  await bookBatch(bookingOn(ledger.pool), batch);
  const { lines, quarantine } = await readLedger(ledger.ownerUrl);
  assert.equal(lines.length, 1);
  assert.deepEqual(quarantine, ["cost_mismatch: the event says 1, its units and prices give 400"]);
});

test("a day that the database refuses, because its clock differs, goes to quarantine", async () => {
  await using ledger = await createLedger(server.postgres);
  const farOff = Date.now() + 5 * 86_400_000;
  const hex = farOff.toString(16).padStart(12, "0");
  const rid = `${hex.slice(0, 8)}-${hex.slice(8)}${createRid().slice(13)}`;
  const bytes = encodeBatch([encodeEvent(makeEvent({ rid })), encodeEvent(makeEvent())]);
  await bookBatch(bookingOn(ledger.pool), readMessage(bytes, 1, farOff));
  const { lines, quarantine } = await readLedger(ledger.ownerUrl);
  assert.equal(lines.length, 1);
  assert.deepEqual(quarantine, [`day_out_of_range: the ledger takes no lines on ${dayOfMs(farOff)}`]);
});

test("money invariant I1 holds when two processes book the same and other events at the same time", async () => {
  await using ledger = await createLedger(server.postgres);
  const accounts = ["acct_c", "acct_a", "acct_b", "acct_d"];
  const batches = Array.from({ length: 12 }, (_, index) =>
    batchOf(
      ...Array.from({ length: 50 }, (__, event) => {
        const number = (event * 7 + index) % accounts.length;
        return { accountId: accounts[number] ?? "", keyId: `key_${number}`, rid: createRid() };
      }),
    ),
  );
  const bookAll = async (order: ReadMessage[]): Promise<void> => {
    const booking = bookingOn(ledger.pool);
    for (const batch of order) await bookBatch(booking, batch);
  };
  await Promise.all([bookAll(batches), bookAll(batches.toReversed()), bookAll(batches.slice(6))]);
  const { lines } = await readLedger(ledger.ownerUrl);
  assert.equal(lines.length, 600);
  assert.deepEqual(await findImbalance(ledger.ownerUrl), []);
});

type Record = { call: number; kind: "provisional" | "final" };

const history = fc.array(
  fc.array(fc.record({ call: fc.nat({ max: 11 }), kind: fc.constantFrom("provisional" as const, "final" as const) }), {
    minLength: 1,
    maxLength: 10,
  }),
  { minLength: 1, maxLength: 8 },
);

test("money invariant I3: in whatever order, a call's charges sum to its final, else its provisional", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  const property = fc.asyncProperty(history, async (batches) => {
    const rids = Array.from({ length: 12 }, createRid);
    const versions = new Map<string, bigint>();
    for (const batch of batches) {
      const posting = await bookBatch(booking, messageOf(batch, rids));
      for (const { accountId, version } of posting.accounts) {
        assert.ok(version >= (versions.get(accountId) ?? 0n), "an account's version never falls");
        versions.set(accountId, version);
      }
    }
    await assertCharged(ledger.ownerUrl, batches.flat(), rids);
  });
  await fc.assert(property, { numRuns: 60 });
});

test("money invariant I3 holds when three processes book the records of the same calls at once", async () => {
  await using ledger = await createLedger(server.postgres);
  const processes = [0, 1, 2].map(() => bookingOn(ledger.pool));
  const property = fc.asyncProperty(fc.tuple(history, history, history), async (histories) => {
    const rids = Array.from({ length: 12 }, createRid);
    const bookAll = async (booking: BookingDeps, batches: Record[][]): Promise<void> => {
      for (const batch of batches) await bookBatch(booking, messageOf(batch, rids));
    };
    await Promise.all(processes.map((booking, index) => bookAll(booking, histories[index] ?? [])));
    await assertCharged(ledger.ownerUrl, histories.flat(2), rids);
  });
  await fc.assert(property, { numRuns: 15 });
});

test("a final is booked while others are, and a provisional record beside no other", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  const other = await ledger.pool.connect();
  try {
    await other.query("BEGIN; SELECT pg_advisory_xact_lock_shared(hashtext('billing.calls'))");
    await bookBatch(booking, batchOf({}));
    const provisional = bookBatch(booking, batchOf({ kind: RecordKind.PROVISIONAL }));
    await until("the provisional record waits", async () => {
      const { rows } = await query(
        ledger.ownerUrl,
        `SELECT FROM pg_locks JOIN pg_database AS d ON d.oid = database
         WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`,
      );
      return rows.length;
    });
    await other.query("COMMIT");
    await provisional;
  } finally {
    other.release();
  }
  assert.deepEqual(
    (await readLedger(ledger.ownerUrl)).lines.map(({ kind }) => kind),
    [1, 2],
  );
});

function messageOf(records: readonly Record[], rids: readonly string[]): ReadMessage {
  const bytesOf = ({ call, kind }: Record): Uint8Array =>
    encodeEvent(
      makeEvent({
        rid: rids[call] ?? "",
        accountId: `acct_${call % 3}`,
        keyId: `key_${call % 4}_${call % 3}`,
        kind: kind === "final" ? RecordKind.FINAL : RecordKind.PROVISIONAL,
        outputTokens: kind === "final" ? 50n + BigInt(call) : BigInt(call),
        ...fixedTimes,
      }),
    );
  return readMessage(encodeBatch(records.map(bytesOf)), 1, Date.now());
}

async function assertCharged(ownerUrl: string, seen: readonly Record[], rids: readonly string[]): Promise<void> {
  const { lines, quarantine } = await readLedger(ownerUrl);
  assert.deepEqual(quarantine, []);
  for (const [call, rid] of rids.entries()) {
    const kinds = new Set(seen.filter((record) => record.call === call).map(({ kind }) => kind));
    const expected = kinds.has("final") ? 700 + 10 * call : kinds.has("provisional") ? 200 + 10 * call : 0;
    const charged = lines.filter((line) => line.rid === rid).reduce((sum, { amount }) => sum - Number(amount), 0);
    assert.equal(charged, expected, `call ${call}, ${[...kinds].join(" and ")}`);
  }
  assert.deepEqual(await findImbalance(ownerUrl), []);
}

// Copies of a record are the same to the byte.
const { startedAt, firstByteAt, endedAt } = makeEvent();
const fixedTimes = { startedAt, firstByteAt, endedAt } as EventFields;

test("a ledger that lacks a table is not taken for bad data: nothing goes to quarantine", async () => {
  await using ledger = await createLedger(server.postgres);
  await query(ledger.ownerUrl, "ALTER TABLE billing.key_spending RENAME TO away");
  const booking = bookingOn(ledger.pool);
  const batch = batchOf({});
  await assert.rejects(bookBatch(booking, batch), /key_spending/);
  await query(ledger.ownerUrl, "ALTER TABLE billing.away RENAME TO key_spending");
  await bookBatch(booking, batch);
  const { lines, quarantine } = await readLedger(ledger.ownerUrl);
  assert.deepEqual([lines.length, quarantine.length], [1, 0]);
});
