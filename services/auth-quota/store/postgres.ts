import pg from "pg";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";

const queryTimeoutMs = 5_000;

/** A pool of connections to PostgreSQL. */
export type Database = {
  /** Runs one statement. Rejects with `unavailable` when PostgreSQL does not answer; its own errors pass through. */
  query: Query;
  /** Runs statements in one transaction: all of it is committed, or none. Rejects as `query` does. */
  transaction: <T>(work: (query: Query) => Promise<T>) => Promise<T>;
};

type Query = <Row extends pg.QueryResultRow>(statement: string, values: unknown[]) => Promise<Row[]>;

/** Opens connections when they are needed, so that the service can start before PostgreSQL does. */
export function connectPostgres(url: string, log: Logger): Database & AsyncDisposable {
  const pool = new pg.Pool({
    connectionString: url,
    max: 8,
    connectionTimeoutMillis: queryTimeoutMs,
    query_timeout: queryTimeoutMs,
    idleTimeoutMillis: 30_000,
    application_name: "auth-quota",
  });
  // An idle connection that breaks is replaced at its next use; without a listener it would end the process.
  pool.on("error", (error) => log.warn({ err: error }, "postgres connection"));
  const answered = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof ServiceError || isAnswer(error)) throw error;
      throw new ServiceError("unavailable", "the key database is not available", error);
    }
  };
  const queryOn =
    (db: Queryable): Query =>
    async <Row extends pg.QueryResultRow>(statement: string, values: unknown[]) =>
      (await db.query<Row>(statement, values)).rows;
  const query = queryOn(pool);
  return {
    query: (statement, values) => answered(() => query(statement, values)),
    transaction: (work) => answered(() => inTransaction(pool, (db) => work(queryOn(db)))),
    [Symbol.asyncDispose]: () => pool.end(),
  };
}

// Classes of SQLSTATE that say that the server is not there, rather than that it refuses the statement:
// 08 connection, 53 resources, 57 intervention by an operator (shutdown, timeout), 58 system.
const absentClasses = new Set(["08", "53", "57", "58"]);

function isAnswer(error: unknown): boolean {
  return error instanceof pg.DatabaseError && !absentClasses.has(String(error.code).slice(0, 2));
}

/** Whether PostgreSQL refused a row because its key is taken. */
export function isTaken(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === "23505";
}
