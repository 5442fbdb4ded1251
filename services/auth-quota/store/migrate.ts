import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";
import type { Logger } from "#shared/log.ts";

const migrationsFolder = fileURLToPath(new URL("migrations", import.meta.url));

/**
 * Brings the schema `auth_quota` up to date. Needs the URL of an owner who may make schemas and roles. Runs at the same
 * time wait for each other; a run that finds nothing to do changes nothing. Throws when the database cannot be reached
 * or a migration fails, and then keeps none of them.
 */
export async function migrate(ownerUrl: string, log: Logger): Promise<void> {
  const quietly = (text: string): void => log.debug({ migration: text }, "migrating");
  const done = await runner({
    databaseUrl: ownerUrl,
    dir: migrationsFolder,
    direction: "up",
    schema: "auth_quota",
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
  log.info({ migrations: done.map(({ name }) => name) }, "schema auth_quota is up to date");
}
