import { ServiceError } from "#shared/errors.ts";
import { isRefusedData, type Pool } from "#shared/postgres.ts";

/** For callers: whatever PostgreSQL or the way to it failed with is `unavailable`; other errors pass. */
export function asUnavailable(error: unknown): unknown {
  if (error instanceof ServiceError || isRefusedData(error)) return error;
  return new ServiceError("unavailable", "the tasks cannot be reached now", error);
}

/** Asks PostgreSQL for a sign of life; the problem in words when there is none. */
export async function probe(pool: Pool): Promise<string | undefined> {
  try {
    await pool.query("SELECT FROM video_task.task LIMIT 1");
    return undefined;
  } catch (error) {
    return String(error);
  }
}
