import type { Logger } from "#shared/process/log.ts";
import { migrate as migrateAuthQuota } from "../../../services/auth-quota/store/migrate.ts";
import { migrate as migrateBilling } from "../../../services/billing/store/migrate.ts";
import { migrate as migrateConsole } from "../../../services/console/store/migrate.ts";
import { migrate as migrateVideoTask } from "../../../services/video-task/store/migrate.ts";

/** Brings every service's schema up to date as its owner, one after the other; throws as `migrateSchema` does. */
export async function migrateSchemas(ownerUrl: string, log: Logger): Promise<void> {
  await migrateAuthQuota(ownerUrl, log);
  await migrateBilling(ownerUrl, log);
  await migrateVideoTask(ownerUrl, log);
  await migrateConsole(ownerUrl, log);
}
