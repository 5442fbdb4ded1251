import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { bookBatch } from "../intake/book.ts";
import { readMessage } from "../records/read-event.ts";
import { forgetSessions } from "./session-progress.ts";
import { bookingOn } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";
import { createLedger, startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

async function startBooking() {
  const ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  return {
    book: (...given: EventFields[]) =>
      bookBatch(booking, readMessage(encodeBatch(given.map((event) => encodeEvent(makeEvent(event)))), 1, Date.now())),
    progress: async () => {
      const { rows } = await query(
        ledger.ownerUrl,
        `SELECT relay_session, events, highest_sequence, whole_at = changed_at AS whole
         FROM billing.session_progress ORDER BY 1`,
      );
      return rows.map(({ relay_session, events, highest_sequence, whole }) => [
        relay_session,
        `${events} of ${Number(highest_sequence) + 1}`,
        whole,
      ]);
    },
    ledger,
    [Symbol.asyncDispose]: () => ledger[Symbol.asyncDispose](),
  };
}

test("events are counted by relay process, once, finals only; a hole ends the time of being whole", async () => {
  await using booking = await startBooking();
  const rid = createRid();
  const event = {
    rid,
    relaySession: "one",
    sequence: 0n,
    startedAt: undefined,
    firstByteAt: undefined,
    endedAt: undefined,
  };
  const other = { relaySession: "two", sequence: 0n };
  await booking.book(event, other, { kind: RecordKind.PROVISIONAL, relaySession: "one" }, { relaySession: "" });
  const first = [
    ["one", "1 of 1", true],
    ["two", "1 of 1", true],
  ];
  assert.deepEqual(await booking.progress(), first);
  await booking.book(event);
  assert.deepEqual(await booking.progress(), first, "booked before");
  await booking.book({ relaySession: "one", sequence: 3n });
  assert.deepEqual((await booking.progress())[0], ["one", "2 of 4", false]);
  await booking.book({ relaySession: "one", sequence: 1n }, { relaySession: "one", sequence: 2n });
  assert.deepEqual((await booking.progress())[0], ["one", "4 of 4", true]);
});

test("a final after a provisional charge counts, one that goes to quarantine leaves a hole", async () => {
  await using booking = await startBooking();
  const rid = createRid();
  await booking.book({ rid, kind: RecordKind.PROVISIONAL, relaySession: "one" });
  assert.deepEqual(await booking.progress(), []);
  await booking.book({ rid, relaySession: "one", sequence: 0n, outputTokens: 30n });
  await booking.book(
    { rid, relaySession: "one", sequence: 1n, outputTokens: 40n },
    { relaySession: "one", sequence: 2n },
  );
  assert.deepEqual(await booking.progress(), [["one", "2 of 3", false]]);
});

test("a line holds what audits ask for: model served, hold, cost, cost at the provider", async () => {
  await using booking = await startBooking();
  const rid = createRid();
  await booking.book({ rid, kind: RecordKind.PROVISIONAL, heldNanos: 600n, upstreamCostNanos: 70n });
  await booking.book({ rid, modelServed: 'odd"\\{name}', outputTokens: 30n, heldNanos: 700n });
  const { rows } = await query(
    booking.ledger.ownerUrl,
    `SELECT kind, amount_nanos, model_served, held_nanos, cost_nanos, upstream_cost_nanos
     FROM billing.ledger_line ORDER BY kind`,
  );
  assert.deepEqual(rows.map(Object.values), [
    [2, "-400", "demo-chat-2026-01", "600", "400", "70"],
    [3, "-100", 'odd"\\{name}', "700", "500", null],
  ]);
});

test("a relay process is forgotten 400 days after its last event, not before, and by the service alone", async () => {
  await using booking = await startBooking();
  const { ownerUrl, pool } = booking.ledger;
  await booking.book({ relaySession: "old" }, { relaySession: "older" }, { relaySession: "new" });
  await query(
    ownerUrl,
    `UPDATE billing.session_progress SET changed_at = now() - interval '399 days' WHERE relay_session = 'old';
     UPDATE billing.session_progress SET changed_at = now() - interval '401 days' WHERE relay_session = 'older'`,
  );
  assert.equal(await forgetSessions(pool), 1n);
  assert.equal(await forgetSessions(pool), 0n);
  const { rows } = await query(ownerUrl, "SELECT relay_session AS name FROM billing.session_progress ORDER BY 1");
  assert.deepEqual(
    rows.map(({ name }) => name),
    ["new", "old"],
  );
});
