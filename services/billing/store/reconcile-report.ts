import type { KeptReport } from "#shared/report.ts";
import type { Pool } from "#shared/postgres.ts";

type Row = { content: Buffer; signature: Buffer | null; publicKey: string | null };

/** Keeps a report; those of the same day before it stay. */
export async function insertReport(pool: Pool, day: string, madeAtMs: number, report: KeptReport): Promise<void> {
  const { content, signature, publicKey } = report;
  await pool.query(
    "INSERT INTO billing.report (day, made_at, content, signature, public_key) VALUES ($1, $2, $3, $4, $5)",
    [day, new Date(madeAtMs), content, signature ?? null, publicKey ?? null],
  );
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

/** Does `work` unless another replica is at it. The lock ends with its connection, whatever becomes of this process. */
export async function alone(pool: Pool, work: () => Promise<void>): Promise<void> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    const lock = "hashtext('billing.daily_report')";
    const { rows } = await client.query<{ isOurs: boolean }>(`SELECT pg_try_advisory_lock(${lock}) AS "isOurs"`);
    if (!rows[0]?.isOurs) return;
    await work();
    await client.query(`SELECT pg_advisory_unlock(${lock})`);
  } catch (error) {
    failure = error instanceof Error ? error : new Error(String(error));
    throw error;
  } finally {
    client.release(failure ?? false);
  }
}
