import type { DestinationStream } from "pino";
import { createLog, type Logger } from "#shared/process/log.ts";
import { type Config, readConfig } from "./config.ts";
import {
  connect,
  ensureBackupLogin,
  ensureLogin,
  errorWords,
  loginName,
  signInProblem,
  type ServiceLogin,
} from "./logins.ts";
import { type Schema, schemas } from "./names.ts";
import { migrateSchemas } from "./schemas.ts";

/** Where the log lines go, and the one text that tells why it failed. */
export type Output = { lines?: DestinationStream; fault: (text: string) => void };

/**
 * What `migrate` of the image does, again at every upgrade: schemas first, then the logins that it is told of. Gives
 * the exit code: 0 is done, 1 failed and may be tried again, 2 the configuration is not usable. No text tells a secret.
 */
export async function runMigrate(environment: NodeJS.ProcessEnv, { lines, fault }: Output): Promise<0 | 1 | 2> {
  let code: 1 | 2 = 2;
  try {
    const config = readConfig(environment);
    code = 1;
    const log = createLog("migrate", config.LOG_LEVEL, lines);
    await migrateAll(config, log);
    log.info("everything is up to date");
    return 0;
  } catch (error) {
    fault(errorWords(error));
    return code;
  }
}

async function migrateAll(config: Config, log: Logger): Promise<void> {
  await using owner = await connect(config.DATABASE_OWNER_URL);
  await migrateSchemas(config.DATABASE_OWNER_URL, log);
  for (const login of loginsOf(config)) {
    const outcome = await ensureLogin(owner, login);
    log.info({ login: loginName(login.url), outcome }, `the login of ${login.schema} is there`);
    const problem = await signInProblem(login);
    if (problem?.isCertain) throw new Error(`${login.schema}: ${problem.words}`);
    // A service may reach PostgreSQL by a way that is not open here; its own readiness will tell.
    if (problem) log.warn(`${login.schema}: its login could not be tried from here: ${problem.words}`);
  }
  const backup = config.BACKUP_DATABASE_URL;
  if (backup === "") return;
  const outcome = await ensureBackupLogin(owner, backup, schemas);
  log.info({ login: loginName(backup), outcome }, "the login for backups is there");
}

function loginsOf(config: Config): ServiceLogin[] {
  const urls: Record<Schema, string> = {
    auth_quota: config.AUTH_QUOTA_DATABASE_URL,
    billing: config.BILLING_DATABASE_URL,
    video_task: config.VIDEO_TASK_DATABASE_URL,
    console: config.CONSOLE_DATABASE_URL,
  };
  return schemas.filter((schema) => urls[schema] !== "").map((schema) => ({ schema, url: urls[schema] }));
}
