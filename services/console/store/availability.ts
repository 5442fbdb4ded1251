import { ServiceError } from "#shared/process/errors.ts";
import { isRefusedData } from "#shared/stores/postgres.ts";

/** For the pages: whatever PostgreSQL or the way to it failed with is `unavailable`; other errors pass. */
export async function reachable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!isOfDatabase(error) || isRefusedData(error)) throw error;
    throw new ServiceError("unavailable", "the database cannot be reached now", error);
  }
}

// SQLSTATE classes: 08 connection, 25 transaction ended by a timeout, 53 resources, 57 intervention, 58 system.
const awaySqlState = /^(08|25P03|53|57|58)/;
const awaySystem = /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/;
const awayWords =
  /timeout exceeded when trying to connect|Query read timeout|Connection terminated|connection timeout|not queryable/i;

function isOfDatabase(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = "code" in error ? String(error.code) : "";
  return awaySqlState.test(code) || awaySystem.test(code) || awayWords.test(error.message);
}
