import type { AccountVersion } from "./funds.ts";
import { numberArray, plainArray } from "./arrays.ts";
import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";

/**
 * How far one stream is booked. The ledger keeps it beside its lines, so that a ledger which was promoted or restored
 * behind it tells so. A stream that is made anew begins its sequences again and has another name here.
 */
export type StreamMark = { stream: string; sequence: bigint };

/** Why lines are missing that the ledger had: what it says of itself, against what was known of it. */
export type LedgerLoss = { reason: string; stream: string; bookedUntil: bigint };

/** Thrown within the transaction that books: nothing of the batch is booked, and it may come again after the repair. */
export class LedgerLostError extends Error {
  readonly loss: LedgerLoss;
  constructor(loss: LedgerLoss) {
    super(`the ledger has lost bookings: ${loss.reason}`);
    this.name = "LedgerLostError";
    this.loss = loss;
  }
}

/** An epoch of which not everything is booked again. */
export type OpenEpoch = { epoch: number; stream: string; bookedUntil: bigint };

type LedgerPlace = { place: string; knownPlace: string; booked: bigint | null };

// Where the ledger is and was, and how far the stream $1 is booked.
const readPlace = `SELECT billing.ledger_place() AS place,
  (SELECT place FROM billing.ledger_epoch ORDER BY epoch DESC LIMIT 1) AS "knownPlace",
  (SELECT max(booked_sequence) FROM billing.stream_progress WHERE stream = $1) AS booked`;

/**
 * Finds a ledger that is not where it was (promoted, or loaded from a dump), or that is booked less far than `known`
 * says (a disk that was put back).
 */
export async function findLoss(db: Queryable, known: StreamMark): Promise<LedgerLoss | undefined> {
  const { rows } = await db.query<LedgerPlace>(readPlace, [known.stream]);
  return lossOf(rows[0], known);
}

/**
 * Finds a ledger that is behind balances which auth-quota has from it: versions go there behind their commit. Nothing
 * else tells of a disk that was put back together with the stream's, where no process remembers more.
 */
export async function findOlder(
  db: Queryable,
  known: StreamMark,
  newer: readonly AccountVersion[],
): Promise<LedgerLoss | undefined> {
  if (newer.length === 0) return undefined;
  const { rows } = await db.query<AccountVersion & { told: bigint }>(
    `SELECT account_id AS "accountId", coalesce(a.version, 0) AS version, n.version AS told
     FROM unnest($1::text[], $2::bigint[]) AS n (account_id, version) LEFT JOIN billing.account AS a USING (account_id)
     WHERE coalesce(a.version, 0) < n.version LIMIT 1`,
    [plainArray(newer.map(({ accountId }) => accountId)), numberArray(newer.map(({ version }) => version))],
  );
  const [older] = rows;
  if (!older) return undefined;
  const reason = `${older.accountId} is at version ${older.version}, and was told at ${older.told}`;
  return { stream: known.stream, bookedUntil: (await readMark(db, known.stream)) ?? 0n, reason };
}

function lossOf(found: LedgerPlace | undefined, known: StreamMark): LedgerLoss | undefined {
  if (!found) return undefined;
  const { place, knownPlace, booked } = found;
  const loss = { stream: known.stream, bookedUntil: booked ?? 0n };
  if (place !== knownPlace) return { ...loss, reason: `it was at ${knownPlace} and is at ${place}` };
  // Without a row the ledger has never booked of this stream with these tables: nothing is known.
  if (booked === null || booked >= known.sequence) return undefined;
  return { ...loss, reason: `it is booked up to ${booked}, and was up to ${known.sequence}` };
}

/** As findLoss, but throws LedgerLostError; else writes down how far this transaction books. */
export async function advanceMark(db: Queryable, known: StreamMark, sequence: bigint): Promise<void> {
  const { rows } = await db.query<LedgerPlace>(
    `WITH found AS (${readPlace}), noted AS (
       INSERT INTO billing.stream_progress AS p (stream, bucket, booked_sequence)
       SELECT $1, pg_backend_pid() % 16, $2::bigint
       ON CONFLICT (stream, bucket) DO UPDATE
         SET booked_sequence = greatest(p.booked_sequence, excluded.booked_sequence)
     ) SELECT * FROM found`,
    [known.stream, sequence],
  );
  const loss = lossOf(rows[0], known);
  if (loss) throw new LedgerLostError(loss);
}

/**
 * Begins a new epoch, unless another process has done so meanwhile: every balance and spending gets a version above
 * all that were ever given out, so that auth-quota takes them. `ends`: where the streams end now, up to which the
 * repair books again.
 */
export async function openEpoch(
  pool: Pool,
  known: StreamMark,
  { ends, newer }: { ends: readonly StreamMark[]; newer: readonly AccountVersion[] },
): Promise<LedgerLoss | undefined> {
  return await inTransaction(pool, async (db) => {
    await db.query("SELECT pg_advisory_xact_lock(hashtext('billing.ledger_epoch'))");
    const loss = (await findLoss(db, known)) ?? (await findOlder(db, known, newer));
    if (!loss) return undefined;
    await db.query(
      `INSERT INTO billing.ledger_epoch (epoch, place, reason, stream, booked_until)
       SELECT max(epoch) + 1, billing.ledger_place(), $1, $2, $3 FROM billing.ledger_epoch`,
      [loss.reason, loss.stream, loss.bookedUntil],
    );
    for (const end of ends) await writeMark(db, end);
    await raiseVersions(db);
    return loss;
  });
}

/** Says how far a stream is booked. */
export async function writeMark(db: Queryable, { stream, sequence }: StreamMark): Promise<void> {
  await db.query(
    `INSERT INTO billing.stream_progress AS p (stream, bucket, booked_sequence) VALUES ($1, 0, $2)
     ON CONFLICT (stream, bucket) DO UPDATE SET booked_sequence = excluded.booked_sequence`,
    [stream, sequence],
  );
}

/** How far a stream is booked; undefined where the ledger has never booked of it. */
export async function readMark(db: Queryable, stream: string): Promise<bigint | undefined> {
  const { rows } = await db.query<{ booked: bigint | null }>(
    "SELECT max(booked_sequence) AS booked FROM billing.stream_progress WHERE stream = $1",
    [stream],
  );
  return rows[0]?.booked ?? undefined;
}

// In the order of ids, as every transaction that locks several of them.
async function raiseVersions(db: Queryable): Promise<void> {
  await db.query(
    `WITH locked AS (SELECT account_id FROM billing.account ORDER BY account_id FOR UPDATE)
     UPDATE billing.account AS a SET version = billing.first_version() + 1, pushed_version = billing.first_version()
     FROM locked WHERE a.account_id = locked.account_id`,
  );
  await db.query(
    `WITH locked AS (SELECT key_id FROM billing.key_spending ORDER BY key_id FOR UPDATE)
     UPDATE billing.key_spending AS k
     SET version = billing.first_version() + 1, untold_version = billing.first_version() + 1
     FROM locked WHERE k.key_id = locked.key_id`,
  );
}

/** Takes an epoch that is not healed, for a minute: a process that is killed meanwhile is followed by another. */
export async function claimEpoch(pool: Pool): Promise<OpenEpoch | undefined> {
  const { rows } = await pool.query<OpenEpoch>(
    `UPDATE billing.ledger_epoch SET claimed_until = now() + interval '1 minute'
     WHERE epoch = (SELECT max(epoch) FROM billing.ledger_epoch) AND healed_at IS NULL AND claimed_until <= now()
     RETURNING epoch, stream, booked_until AS "bookedUntil"`,
  );
  return rows[0];
}

/** Gives an epoch back that could not be healed now: the next pass of any process takes it. */
export async function releaseEpoch(pool: Pool, epoch: number): Promise<void> {
  await pool.query("UPDATE billing.ledger_epoch SET claimed_until = now() WHERE epoch = $1", [epoch]);
}

/** Says that all is booked again that the stream holds. */
export async function closeEpoch(pool: Pool, epoch: number): Promise<void> {
  await pool.query("UPDATE billing.ledger_epoch SET healed_at = now() WHERE epoch <= $1 AND healed_at IS NULL", [
    epoch,
  ]);
}

/** The ledger's epoch, which begins at 1. */
export async function readEpoch(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ epoch: number }>("SELECT max(epoch) AS epoch FROM billing.ledger_epoch");
  return rows[0]?.epoch ?? 0;
}

/**
 * Makes accounts that the ledger does not know (any more), with nothing on them, in the order of their ids. An
 * untouched one is pushed to auth-quota when something is booked on it, an unpushed one as it is. Ids must have been
 * checked.
 */
export async function createAccounts(
  db: Queryable,
  accountIds: readonly string[],
  state: "untouched" | "unpushed",
): Promise<void> {
  await db.query(
    `INSERT INTO billing.account (account_id, version) SELECT id, billing.first_version() + $2
     FROM unnest($1::text[]) AS id ORDER BY id ON CONFLICT DO NOTHING`,
    [plainArray(accountIds), state === "unpushed" ? 1 : 0],
  );
}
