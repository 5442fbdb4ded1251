import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { createToken, hashToken } from "../credentials/secrets.ts";
import { bootstrapHours, keepBootstrapToken } from "../store/bootstrap.ts";

/** Makes the bootstrap token at the first start without an operator. It is in this one line and nowhere else. */
export async function ensureBootstrap(pool: Pool, log: Logger): Promise<void> {
  // Where warnings are not written, the token would be made and lost.
  if (!log.isLevelEnabled("warn")) return;
  const bootstrapToken = createToken();
  if (!(await keepBootstrapToken(pool, hashToken(bootstrapToken)))) return;
  log.warn({ bootstrapToken }, `no operator yet: open /setup within ${bootstrapHours} h and enter this token`);
}
