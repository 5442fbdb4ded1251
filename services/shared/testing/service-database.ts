import { createLog, type Logger } from "../process/log.ts";
import { createPool, type Pool } from "../stores/postgres.ts";
import { query } from "./postgres.ts";
import type { Databases } from "./share.ts";

/** A service's schema in a database of its own. */
export type ServiceDatabase = AsyncDisposable & {
  /** As the owner of the tables. */
  ownerUrl: string;
  /** As a login that is a member of the service's role and nothing else. */
  url: string;
  pool: Pool;
};

/** Makes a database, the schema of `<schema>_rw` in it, and a login for the service. */
export async function createServiceDatabase(
  postgres: Databases,
  schema: string,
  migrate: (ownerUrl: string, log: Logger) => Promise<void>,
): Promise<ServiceDatabase> {
  const ownerUrl = await postgres.createDatabase();
  await migrate(ownerUrl, createLog("test", "silent"));
  const name = `${schema}_test`;
  await query(
    ownerUrl,
    `DO $$ BEGIN
       CREATE ROLE ${name} LOGIN PASSWORD '${name}';
     EXCEPTION
       WHEN duplicate_object OR unique_violation THEN NULL;
     END $$;
     GRANT ${schema}_rw TO ${name}`,
  );
  const login = new URL(ownerUrl);
  login.username = name;
  login.password = name;
  const pool = createPool(login.href, name, () => undefined);
  return { ownerUrl, url: login.href, pool, [Symbol.asyncDispose]: () => pool.end() };
}
