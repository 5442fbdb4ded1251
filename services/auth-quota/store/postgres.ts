import pg from "pg";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";

const queryTimeoutMs = 5_000;

/** A pool of connections to PostgreSQL. */
export type Database = {
  /** Runs one statement. Rejects with `unavailable` when PostgreSQL does not answer; its own errors pass through. */
  query: <Row extends pg.QueryResultRow>(statement: string, values: unknown[]) => Promise<Row[]>;
};

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
  return {
    query: async <Row extends pg.QueryResultRow>(statement: string, values: unknown[]) => {
      try {
        return (await pool.query<Row>(statement, values)).rows;
      } catch (error) {
        throw isAnswer(error) ? error : new ServiceError("unavailable", "the key database is not available", error);
      }
    },
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

/** Whether PostgreSQL refused a row because what it refers to does not exist. */
export function isDangling(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === "23503";
}
