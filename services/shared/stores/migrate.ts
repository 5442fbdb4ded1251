import { PG_MIGRATE_LOCK_ID, runner } from "node-pg-migrate";
import pg from "pg";
import type { Logger } from "../process/log.ts";

/**
 * Brings a schema up to date with the migrations of a folder. Needs the URL of an owner who may make schemas and roles.
 * Runs at the same time wait for each other; a run that finds nothing to do changes nothing. Throws when the database
 * cannot be reached or a migration fails, and then keeps none of them.
 */
export async function migrateSchema(
  ownerUrl: string,
  { schema, folder }: { schema: string; folder: string },
  log: Logger,
): Promise<void> {
  const quietly = (text: string): void => log.debug({ migration: text }, "migrating");
  const client = new pg.Client({ connectionString: ownerUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    // All in one transaction, the lock too: behind a pooler that of a session would stay with a stranger. So would a
    // search_path, for which reason migrations name their schema.
    await client.query("BEGIN");
    await client.query(`SELECT pg_advisory_xact_lock(${PG_MIGRATE_LOCK_ID})`);
    const done = await runner({
      dbClient: client,
      dir: folder,
      direction: "up",
      migrationsSchema: schema,
      createMigrationsSchema: true,
      migrationsTable: "migration",
      noLock: true,
      singleTransaction: true,
      logger: {
        debug: quietly,
        info: quietly,
        warn: quietly,
        error: (text: string) => log.error({ migration: text }, "migrating"),
      },
    });
    // It has done so itself where there was something to do.
    await client.query("COMMIT");
    log.info({ migrations: done.map(({ name }) => name) }, `schema ${schema} is up to date`);
  } finally {
    await client.end();
  }
}
