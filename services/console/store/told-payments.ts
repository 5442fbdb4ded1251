import type { Queryable } from "#shared/stores/postgres.ts";

export type Told = { untilMs: number; ledgerEpoch: number | null };

const claim = "claimed_until = now() + interval '5 minutes'";

/** Up to when what the provider told is handled, for one process for five minutes; undefined while another has it. */
export async function claimTold(db: Queryable): Promise<Told | undefined> {
  const { rows } = await db.query<Told>(
    `UPDATE console.told_payments SET ${claim} WHERE claimed_until < now()
     RETURNING extract(epoch FROM told_until)::float8 * 1000 AS "untilMs", ledger_epoch AS "ledgerEpoch"`,
  );
  return rows[0];
}

/** Notes how far it has come, and goes on for five minutes. */
export async function writeTold(db: Queryable, untilMs: number): Promise<void> {
  await db.query(`UPDATE console.told_payments SET told_until = $1, ${claim}`, [new Date(untilMs)]);
}

/** Begins at another time, with another ledger. */
export async function beginTold(db: Queryable, untilMs: number, ledgerEpoch: number): Promise<void> {
  await db.query("UPDATE console.told_payments SET told_until = $1, ledger_epoch = $2", [
    new Date(untilMs),
    ledgerEpoch,
  ]);
}

export async function releaseTold(db: Queryable): Promise<void> {
  await db.query("UPDATE console.told_payments SET claimed_until = '-infinity'");
}
