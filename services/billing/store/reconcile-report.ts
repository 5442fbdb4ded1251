import type { KeptReport } from "#shared/money/report.ts";
import { inTransaction, type Pool } from "#shared/stores/postgres.ts";

type Row = { content: Buffer; signature: Buffer | null; publicKey: string | null };

/** Keeps a report; those of the same day before it stay. */
export async function insertReport(pool: Pool, day: string, madeAtMs: number, report: KeptReport): Promise<void> {
  const { content, signature, publicKey } = report;
  await pool.query(
    "INSERT INTO billing.report (day, made_at, content, signature, public_key) VALUES ($1, $2, $3, $4, $5)",
    [day, new Date(madeAtMs), content, signature ?? null, publicKey ?? null],
  );
}

/** How many reports of a day are kept. */
export async function countReports(pool: Pool, day: string): Promise<number> {
  const statement = "SELECT count(*)::int AS reports FROM billing.report WHERE day = $1";
  const { rows } = await pool.query<{ reports: number }>(statement, [day]);
  return rows[0]?.reports ?? 0;
}

/** Reports of a day, the newest first, at most `limit`. */
export async function readReports(pool: Pool, day: string, limit: number): Promise<KeptReport[]> {
  const { rows } = await pool.query<Row>(
    `SELECT content, signature, public_key AS "publicKey" FROM billing.report WHERE day = $1
     ORDER BY made_at DESC LIMIT $2`,
    [day, limit],
  );
  return rows.map(({ content, signature, publicKey }) => ({
    content,
    signature: signature ?? undefined,
    publicKey: publicKey ?? undefined,
  }));
}

/** Forgets reports that were made 400 days ago; returns how many. */
export async function forgetReports(pool: Pool): Promise<bigint> {
  const { rows } = await pool.query<{ forgotten: bigint }>("SELECT billing.forget_reports() AS forgotten");
  return rows[0]?.forgotten ?? 0n;
}

// Longer than a report or the archive of some days takes: the transaction with the lock is idle meanwhile.
const longestWorkMs = 6 * 3_600_000;

/**
 * Does `work` unless another replica is at what the lock is named after. It ends with its transaction, and so with its
 * connection, whatever becomes of this process.
 */
export async function alone(pool: Pool, name: string, work: () => Promise<void>): Promise<void> {
  await inTransaction(pool, async (db) => {
    await db.query(`SET LOCAL idle_in_transaction_session_timeout = ${longestWorkMs}`);
    const { rows } = await db.query<{ isOurs: boolean }>(`SELECT pg_try_advisory_xact_lock(hashtext($1)) AS "isOurs"`, [
      name,
    ]);
    if (rows[0]?.isOurs) await work();
  });
}
