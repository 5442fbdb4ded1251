import pg from "pg";
import { ServiceError } from "../process/errors.ts";

export type Pool = pg.Pool;

/** What a statement runs on: the pool, or the one connection of a transaction. */
export type Queryable = Pick<pg.Pool, "query">;

const oid = { int8: 20, date: 1082 } as const;

// Money must never become a float, and a day must not become an instant in some time zone.
const types: pg.CustomTypesConfig = {
  getTypeParser: ((id: number, format?: "text" | "binary") => {
    if (id === oid.int8) return BigInt;
    if (id === oid.date) return String;
    return pg.types.getTypeParser(id, format);
  }) as pg.CustomTypesConfig["getTypeParser"],
};

/**
 * Connections to PostgreSQL, made when needed, which bear the service's name there. `onError` hears of connections that
 * break. How long statements and idle transactions may take is a setting of the login
 * (deploy/tools/migrate/logins.ts): a pooler that gives a connection to another client after each transaction takes
 * none from clients.
 */
export function createPool(url: string, name: string, onError: (error: Error) => void): Pool & AsyncDisposable {
  const pool = new pg.Pool({
    connectionString: url,
    max: 10,
    application_name: name,
    connectionTimeoutMillis: 5_000,
    // A connection whose other end is gone without a word.
    query_timeout: 35_000,
    keepAlive: true,
    types,
  });
  pool.on("error", onError);
  // The pool listens only while a connection is idle; one that breaks between two statements of a transaction would
  // otherwise end the process.
  pool.on("connect", (client) => client.on("error", onError));
  return Object.assign(pool, { [Symbol.asyncDispose]: () => pool.end() });
}

/** Runs `work` in one transaction: all of it is committed, or none. */
export async function inTransaction<T>(pool: Pool, work: (db: Queryable) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    failure = error instanceof Error ? error : new Error(String(error));
    throw error;
  } finally {
    // After a failure nothing is known of the connection: it is closed, which rolls back, instead of used again.
    client.release(failure ?? false);
  }
}

/** Whether PostgreSQL refused the data itself (SQLSTATE classes 22 and 23), so that trying again cannot help. */
export function isRefusedData(error: unknown): boolean {
  return error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? "");
}

/** For callers: errors of PostgreSQL and its connection become `unavailable` with `words`; others pass. */
export function asUnavailable(error: unknown, words: string): unknown {
  if (error instanceof ServiceError || isRefusedData(error)) return error;
  return new ServiceError("unavailable", words, error);
}

/** Runs a statement as a sign of life; the problem in words when there is none. */
export async function probe(pool: Pool, statement: string): Promise<string | undefined> {
  try {
    await pool.query(statement);
    return undefined;
  } catch (error) {
    return String(error);
  }
}
