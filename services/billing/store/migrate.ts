import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";
import type { Logger } from "#shared/log.ts";

const migrationsFolder = fileURLToPath(new URL("migrations", import.meta.url));

/**
 * Brings the schema `billing` up to date as its owner. Runs at the same time wait for each other; a run that finds
 * nothing to do changes nothing. Throws when the database cannot be reached or a migration fails (then none is kept).
 */
export async function migrate(ownerUrl: string, log: Logger): Promise<void> {
  const lines = (text: string): void => log.debug({ migration: text }, "migrating");
  const done = await runner({
    databaseUrl: ownerUrl,
    dir: migrationsFolder,
    direction: "up",
    schema: "billing",
    createSchema: true,
    migrationsTable: "migration",
    advisoryLockMode: "wait",
    singleTransaction: true,
    logger: {
      debug: lines,
      info: lines,
      warn: lines,
      error: (text: string) => log.error({ migration: text }, "migrating"),
    },
  });
  log.info({ migrations: done.map(({ name }) => name) }, "schema billing is up to date");
}
