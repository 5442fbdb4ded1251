import assert from "node:assert/strict";
import { test } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { createRid } from "#shared/money/rid.ts";
import { planBatch, type BookedState } from "./plan.ts";
import { readEvent, type ReadEvent } from "./read-event.ts";
import { encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";

function read(given: EventFields): ReadEvent {
  const result = readEvent(encodeEvent(makeEvent(given)), 1, Date.now());
  assert.ok(!("reason" in result));
  return result;
}

function emptyLedger(balanceNanos = 0n): BookedState {
  const funds = (): { balanceNanos: bigint; chargedNanos: bigint } => ({ balanceNanos, chargedNanos: 0n });
  return {
    calls: new Map(),
    accounts: new Map([
      ["acct_test", funds()],
      ["acct_other", funds()],
    ]),
  };
}

const plan = (events: ReadEvent[], booked: BookedState) => planBatch(events, booked, Date.now());
const shown = ({ lines }: ReturnType<typeof plan>) => lines.map(({ kind, amountNanos }) => [kind, -amountNanos]);

const rid = createRid();
const provisional = read({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 10n }); // 300 nano-USD
const final = read({ rid, outputTokens: 20n }); // 400 nano-USD

test("a final alone is a charge; the same again is nothing", () => {
  const booked = emptyLedger();
  assert.deepEqual(shown(plan([final], booked)), [[LineKind.CHARGE, 400n]]);
  const again = plan([final, final], booked);
  assert.deepEqual(shown(again), []);
  assert.equal(again.duplicates, 2);
  assert.equal(again.calls.get(rid)?.chargedNanos, 400n, "what is booked is told for duplicates too");
});

test("what is not proven is booked by nobody, but known when it is booked already", () => {
  const unproven = (one: ReadEvent): ReadEvent => ({ ...one, isProven: false });
  const booked = emptyLedger();
  const refused = plan([unproven(provisional), unproven(final)], booked);
  assert.deepEqual([shown(refused), refused.rejects.map(({ reason }) => reason)], [[], Array(2).fill("hold_unproven")]);
  assert.deepEqual(shown(plan([provisional], booked)), [[LineKind.PROVISIONAL_CHARGE, 300n]]);
  const raised = plan([unproven(final)], booked);
  assert.deepEqual([shown(raised), raised.rejects.map(({ reason }) => reason)], [[], ["hold_unproven"]]);
  assert.deepEqual(shown(plan([final], booked)), [[LineKind.FINAL_ADJUSTMENT, 100n]]);
  const known = plan([unproven(provisional), unproven(final)], booked);
  assert.deepEqual([known.duplicates, known.rejects], [2, []]);
});

test("provisional, then final: the final adds the difference, in money and in units", () => {
  const booked = emptyLedger();
  assert.deepEqual(shown(plan([provisional], booked)), [[LineKind.PROVISIONAL_CHARGE, 300n]]);
  const second = plan([final], booked);
  assert.deepEqual(shown(second), [[LineKind.FINAL_ADJUSTMENT, 100n]]);
  const units = Object.entries(second.lines[0]?.units ?? {}).filter(([, count]) => count !== 0n);
  assert.deepEqual(units, [["outputTokens", 10n]]);
  const third = plan([provisional, final], booked);
  assert.deepEqual(shown(third), []);
  assert.equal(third.duplicates, 2);
});

test("final, then provisional: nothing is added", () => {
  const booked = emptyLedger();
  plan([final], booked);
  const second = plan([provisional], booked);
  assert.deepEqual(shown(second), []);
  assert.equal(second.superseded, 1);
  assert.equal(second.calls.get(rid)?.final !== undefined, true);
});

for (const batch of [
  [provisional, final],
  [final, provisional],
  [final, provisional, final, provisional],
]) {
  const names = batch.map((each) => (each === final ? "final" : "provisional")).join(", ");
  test(`${names} in one batch: one charge of the final`, () => {
    assert.deepEqual(shown(plan(batch, emptyLedger())), [[LineKind.CHARGE, 400n]]);
  });
}

test("a final below its provisional never lowers the charge, and is named", () => {
  const booked = emptyLedger();
  plan([provisional], booked);
  const second = plan([read({ rid, outputTokens: 5n })], booked);
  assert.deepEqual(shown(second), [[LineKind.FINAL_ADJUSTMENT, 0n]]);
  assert.deepEqual(second.loweredRids, [rid]);
});

test("the same (rid, kind) with other content is a conflict, not a no-op: of one batch and of two", () => {
  const other = read({ rid, outputTokens: 21n });
  for (const [first, second] of [
    [[final], [other]],
    [[], [final, other]],
  ] as const) {
    const booked = emptyLedger();
    plan([...first], booked);
    const result = plan([...second], booked);
    assert.deepEqual(
      result.rejects.map(({ reason }) => reason),
      ["content_conflict"],
    );
    assert.equal(result.calls.get(rid)?.chargedNanos, 400n);
  }
});

test("a record that names another account or key for a booked call is a conflict", () => {
  for (const given of [{ accountId: "acct_other" }, { keyId: "key_other" }]) {
    const booked = emptyLedger();
    plan([provisional], booked);
    const result = plan([read({ rid, ...given })], booked);
    assert.deepEqual(shown(result), []);
    assert.equal(result.rejects[0]?.reason, "content_conflict");
  }
});

test("a charge that would take a balance out of its range is kept apart, and the rest is booked", () => {
  const booked = emptyLedger(-maxAccountNanos + 500n);
  const second = read({});
  const result = plan([final, second], booked);
  assert.deepEqual(shown(result), [[LineKind.CHARGE, 400n]]);
  assert.deepEqual(
    result.rejects.map(({ reason, rid: rejected }) => [reason, rejected]),
    [["balance_overflow", second.event.rid]],
  );
});

test("charges are summed by account and by key", () => {
  const events = [final, read({ keyId: "key_2" }), read({ accountId: "acct_other", keyId: "key_3" })];
  const result = plan(events, emptyLedger());
  assert.deepEqual(
    [...result.chargedByAccount],
    [
      ["acct_test", 800n],
      ["acct_other", 400n],
    ],
  );
  assert.deepEqual(
    [...result.chargedByKey].map(([keyId, { chargedNanos }]) => [keyId, chargedNanos]),
    [
      ["key_test", 400n],
      ["key_2", 400n],
      ["key_3", 400n],
    ],
  );
});
