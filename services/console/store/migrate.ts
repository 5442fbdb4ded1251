import { fileURLToPath } from "node:url";
import type { Logger } from "#shared/process/log.ts";
import { migrateSchema } from "#shared/stores/migrate.ts";

const folder = fileURLToPath(new URL("migrations", import.meta.url));

/** Brings the schema `console` up to date as its owner; see `migrateSchema`. */
export const migrate = (ownerUrl: string, log: Logger): Promise<void> =>
  migrateSchema(ownerUrl, { schema: "console", folder }, log);
