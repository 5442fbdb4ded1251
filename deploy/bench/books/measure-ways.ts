import type { Pool } from "#shared/stores/postgres.ts";
import { query } from "#shared/testing/postgres.ts";
import { groupColumns } from "../../../services/billing/store/sum-columns.ts";
import { readTreeCpuUs } from "../process-use.ts";
import { renderTable } from "../table.ts";

const batches = 100;
const linesPerBatch = 1_000;

/**
 * What sums cost PostgreSQL per 1,000 lines when each posting transaction adds to the rows of its hour, beside one pass
 * over the same lines; for lines of one account (with 4 keys and 5 models), of 100 and of 10,000 in one hour.
 */
export async function measureWays(pool: Pool, ownerUrl: string, postgresPid: number): Promise<string> {
  await query(
    ownerUrl,
    `CREATE TABLE billing.bench_sum (LIKE billing.hour_sum INCLUDING ALL) WITH (fillfactor = 50);
    GRANT SELECT, INSERT, UPDATE, DELETE ON billing.bench_sum TO billing_rw`,
  );
  const rows: string[][] = [];
  for (const accounts of [1, 100, 10_000]) {
    const of = (first: number, count: number): string =>
      `SELECT 'acct_' || n % ${accounts} AS account_id, to_timestamp(0) AS booked_at, to_timestamp(0) AS opened_at,
         to_timestamp(0) AS called_at, 1 AS kind, 'key_' || n * 31 % 4 AS key_id, 'demo-' || n * 17 % 5 AS model,
         1 AS lines, 0 AS failed, -400 AS amount_nanos, 100 AS input_tokens, 20 AS output_tokens
       FROM generate_series(${first}, ${first + count - 1}) AS n`;
    const grouped = (lines: string): string =>
      `SELECT ${groupColumns}, sum(lines), sum(failed), sum(amount_nanos), sum(input_tokens), sum(output_tokens)
       FROM (${lines}) AS line GROUP BY ${groupColumns}`;
    const upsert = (lines: string): string => `
      INSERT INTO billing.bench_sum AS s (${groupColumns}, lines, failed, amount_nanos, input_tokens, output_tokens)
      ${grouped(lines)} ON CONFLICT (account_id, booked_at, called_at, opened_at, kind, key_id, model) DO UPDATE SET
        lines = s.lines + excluded.lines, failed = s.failed + excluded.failed,
        amount_nanos = s.amount_nanos + excluded.amount_nanos, input_tokens = s.input_tokens + excluded.input_tokens,
        output_tokens = s.output_tokens + excluded.output_tokens`;
    const each = async (work: (lines: string) => string): Promise<number> => {
      const beforeUs = readTreeCpuUs(postgresPid);
      for (let batch = 0; batch < batches; batch += 1) {
        await pool.query(work(of(batch * linesPerBatch, linesPerBatch)));
      }
      return (readTreeCpuUs(postgresPid) - beforeUs) / batches;
    };
    await each(grouped);
    const groupingUs = await each(grouped);
    const bookingUs = (await each(upsert)) - groupingUs;
    await pool.query("DELETE FROM billing.bench_sum");
    const beforeUs = readTreeCpuUs(postgresPid);
    await pool.query(upsert(of(0, batches * linesPerBatch)));
    const passUs = (readTreeCpuUs(postgresPid) - beforeUs) / batches;
    await pool.query("DELETE FROM billing.bench_sum");
    rows.push([String(accounts), bookingUs.toFixed(0), passUs.toFixed(0)]);
  }
  await query(ownerUrl, "DROP TABLE billing.bench_sum");
  return renderTable(["accounts", "with each booking, µs per 1,000 lines", "in one pass, the same"], rows);
}
