import { dayOfMs } from "../records/check.ts";
import { firstUuidAt } from "../records/line-id.ts";
import type { Window } from "../records/finding.ts";
import { withoutJit } from "./sum-state.ts";
import { inTransaction, type Pool } from "#shared/stores/postgres.ts";

/** A sum over many lines takes longer than any other statement may. */
export const longestMs = 600_000;

/** Runs a statement that may take up to ten minutes. */
export async function askLong<Row extends object>(pool: Pool, text: string, values: unknown[]): Promise<Row[]> {
  return await inTransaction(pool, async (db) => {
    await db.query(`SET LOCAL statement_timeout = ${longestMs}; ${withoutJit}`);
    const question = { text, values, query_timeout: longestMs + 5_000 };
    const { rows } = await db.query<Row>(question);
    return rows;
  });
}

/** $1 to $4 of a question about the calls of a window: days, then rids. */
export const ofWindow = "day BETWEEN $1 AND $2 AND rid >= $3 AND rid < $4";

/** The values of `ofWindow`. The days let PostgreSQL leave out the other partitions. */
export function windowValues({ fromMs, untilMs }: Window): string[] {
  return [dayOfMs(fromMs), dayOfMs(untilMs - 1), firstUuidAt(fromMs), firstUuidAt(untilMs)];
}
