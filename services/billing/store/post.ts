import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import type { BookedCall, BookedState, Plan } from "../records/plan.ts";
import type { ReadEvent, Reject } from "../records/read-event.ts";
import { readUsageRecord } from "../records/usage-record.ts";
import { numberArray, plainArray } from "./arrays.ts";
import { type AccountRow, type KeyRow, readAccounts, readKeys } from "./funds.ts";
import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { insertLines } from "./insert-lines.ts";
import { checkPrices, rememberPrices, type PriceConflict } from "./prices.ts";
import { advanceMark, createAccounts, type StreamMark } from "./ledger-epoch.ts";
import { insertQuarantine } from "./quarantine.ts";
import { countEvents } from "./session-progress.ts";
import { readFence } from "./sum-state.ts";

/** What was decided and is committed, with the balances and spendings of all that the batch touched. */
export type PostResult = {
  plan: Plan;
  newRejects: Reject[];
  accounts: AccountRow[];
  keys: KeyRow[];
  priceConflicts: PriceConflict[];
};

/** How far the stream was known to be booked before this batch, and the highest sequence in it. */
export type Progress = { known: StreamMark; sequence: bigint };

/**
 * Books a batch in one transaction. `decide` is told what the ledger holds and must not wait. When this returns the
 * batch is committed; when it throws nothing is known, and the same batch may come again. Days must have their
 * partitions.
 *
 * Several processes book at once, often for the same accounts. Whatever is locked is locked last, for the few
 * statements before the commit: accounts, keys, then the progress of relays, each in the order of their ids, so that
 * two transactions cannot wait in a circle. What is decided before that is only what nobody else can change: that a
 * line is there once is the unique index, and see enterCalls for the rest.
 */
export async function postBatch(
  pool: Pool,
  events: readonly ReadEvent[],
  decide: (booked: BookedState) => Plan,
  progress?: Progress,
): Promise<PostResult> {
  const accountIds = [...new Set(events.map(({ event }) => event.accountId))].toSorted();
  // Committed on its own: inside the transaction, inserting accounts after locking others could wait in a circle with a
  // second process that does the same.
  if (accountIds.length > 0) await createAccounts(pool, accountIds, "untouched");
  const { prices, ...posted } = await inTransaction(pool, async (db) => {
    await enterCalls(db, events);
    const fenceMs = await readFence(db);
    const found = await readAccounts(db, accountIds);
    const accounts = new Map(found.map(({ accountId, ...funds }) => [accountId, funds]));
    const plan = decide({ calls: await readBookedCalls(db, events), accounts, fenceMs });
    await insertLines(db, plan.lines);
    const newRejects = await insertQuarantine(db, [...plan.rejects, ...plan.doubts]);
    const prices = await checkPrices(pool, db, plan.lines);
    await lockAccounts(db, [...plan.chargedByAccount.keys()]);
    await chargeKeys(db, plan.chargedByKey);
    await chargeAccounts(db, plan.chargedByAccount);
    faultPoint("billing: batch not committed");
    await countEvents(db, plan.lines);
    if (progress) await advanceMark(db, progress.known, progress.sequence);
    const keyIds = new Set([...plan.calls.values()].map(({ keyId }) => keyId));
    const keys = await readKeys(db, [...keyIds]);
    return { plan, newRejects, accounts: await readAccounts(db, accountIds), keys, prices };
  });
  rememberPrices(pool, prices);
  return { ...posted, priceConflicts: prices.conflicts };
}

/**
 * Waits until nobody books a call in a way that this batch could miss. Two finals of a call meet in the unique index,
 * and so do two provisionals; a final and a provisional do not, and each would be charged as if it were alone. So a
 * batch with provisionals, which only a lost relay leaves behind, is booked beside no other.
 */
async function enterCalls(db: Queryable, events: readonly ReadEvent[]): Promise<void> {
  const isAlone = events.some(({ event }) => event.kind !== RecordKind.FINAL);
  await db.query(`SELECT pg_advisory_xact_lock${isAlone ? "" : "_shared"}(hashtext('billing.calls'))`);
}

async function lockAccounts(db: Queryable, accountIds: readonly string[]): Promise<void> {
  if (accountIds.length === 0) return;
  await db.query("SELECT FROM billing.account WHERE account_id = ANY ($1::text[]) ORDER BY account_id FOR UPDATE", [
    plainArray(accountIds),
  ]);
}

type LineRow = {
  rid: string;
  kind: LineKind;
  accountId: string;
  keyId: string;
  amountNanos: bigint;
  hash: string;
  event: Buffer | null;
};

/** What the ledger holds of the calls of these events. */
export async function readBookedCalls(db: Queryable, events: readonly ReadEvent[]): Promise<Map<string, BookedCall>> {
  const days = [...new Set(events.map(({ day }) => day))];
  const rids = [...new Set(events.map(({ event }) => event.rid))];
  const { rows } = await db.query<LineRow>(
    `SELECT rid, kind, account_id AS "accountId", key_id AS "keyId", amount_nanos AS "amountNanos",
       encode(payload_hash, 'hex') AS hash, CASE WHEN kind = 2 THEN event END AS event
     FROM billing.ledger_line WHERE day = ANY ($1::date[]) AND rid = ANY ($2::uuid[]) AND kind <= 3`,
    [plainArray(days), plainArray(rids)],
  );
  const calls = new Map<string, BookedCall>();
  for (const row of rows) calls.set(row.rid, withLine(calls.get(row.rid), row));
  return calls;
}

function withLine(call: BookedCall | undefined, row: LineRow): BookedCall {
  const { accountId, keyId, kind, hash, event, amountNanos } = row;
  const chargedNanos = (call?.chargedNanos ?? 0n) - amountNanos;
  if (kind === LineKind.PROVISIONAL_CHARGE) {
    const usage = event ? readUsageRecord(event).usage : undefined;
    return { accountId, keyId, chargedNanos, provisional: { hash, usage }, final: call?.final };
  }
  return { accountId, keyId, chargedNanos, provisional: call?.provisional, final: { hash } };
}

async function chargeKeys(db: Queryable, charged: Plan["chargedByKey"]): Promise<void> {
  if (charged.size === 0) return;
  const entries = [...charged].toSorted(([a], [b]) => (a < b ? -1 : 1));
  await db.query(
    `INSERT INTO billing.key_spending AS k (key_id, account_id, spent_nanos, version, charged_at)
     SELECT key_id, account_id, spent_nanos, billing.first_version() + 1, now()
     FROM unnest($1::text[], $2::text[], $3::bigint[])
       AS new (key_id, account_id, spent_nanos)
     ON CONFLICT (key_id) DO UPDATE SET spent_nanos = k.spent_nanos + excluded.spent_nanos, version = k.version + 1,
       charged_at = excluded.charged_at`,
    [
      plainArray(entries.map(([keyId]) => keyId)),
      plainArray(entries.map(([, { accountId }]) => accountId)),
      numberArray(entries.map(([, { chargedNanos }]) => chargedNanos)),
    ],
  );
}

async function chargeAccounts(db: Queryable, charged: Plan["chargedByAccount"]): Promise<void> {
  if (charged.size === 0) return;
  await db.query(
    `UPDATE billing.account AS a SET balance_nanos = a.balance_nanos - new.charged_nanos,
       charged_nanos = a.charged_nanos + new.charged_nanos, version = a.version + 1
     FROM unnest($1::text[], $2::bigint[]) AS new (account_id, charged_nanos)
     WHERE a.account_id = new.account_id`,
    [plainArray([...charged.keys()]), numberArray([...charged.values()])],
  );
}
