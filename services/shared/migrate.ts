import { runner } from "node-pg-migrate";
import type { Logger } from "./log.ts";

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
  const done = await runner({
    databaseUrl: ownerUrl,
    dir: folder,
    direction: "up",
    schema,
    createSchema: true,
    migrationsTable: "migration",
    advisoryLockMode: "wait",
    singleTransaction: true,
    logger: {
      debug: quietly,
      info: quietly,
      warn: quietly,
      error: (text: string) => log.error({ migration: text }, "migrating"),
    },
  });
  log.info({ migrations: done.map(({ name }) => name) }, `schema ${schema} is up to date`);
}
