import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { natsVariables } from "#shared/stores/link-variables.ts";

const common = {
  NATS_URL: Type.String({ description: "NATS servers, comma-separated; empty: streams are left out.", default: "" }),
  ...natsVariables,
};

export const backupVariables = Type.Object({
  BACKUP_DATABASE_URL: Type.String({
    description: "PostgreSQL, as a login that reads everything; empty: DATABASE_OWNER_URL.",
    default: "",
  }),
  DATABASE_OWNER_URL: Type.String({
    description: "PostgreSQL, as the owner of the database, where BACKUP_DATABASE_URL is empty.",
    default: "",
  }),
  ...common,
  CATALOG_FILE: Type.String({ description: "The catalog, which is copied; empty: it is left out.", default: "" }),
});

export const restoreVariables = Type.Object({
  DATABASE_OWNER_URL: Type.String({
    description: "PostgreSQL, as the owner of the database, who may create databases.",
    minLength: 1,
  }),
  ...common,
});

/** What a backup is made from; `databaseUrl` is the login that reads. */
export type BackupConfig = Static<typeof backupVariables> & { databaseUrl: string };

export type RestoreConfig = Static<typeof restoreVariables>;

/** Reads the configuration; throws `failed_precondition`, whose words show no value. */
export function readBackupConfig(environment: NodeJS.ProcessEnv): BackupConfig {
  const config = read(() => readVariables(backupVariables, environment));
  const databaseUrl = config.BACKUP_DATABASE_URL || config.DATABASE_OWNER_URL;
  if (databaseUrl === "")
    throw new ServiceError(
      "failed_precondition",
      "set BACKUP_DATABASE_URL or DATABASE_OWNER_URL, or start the local stack: npm start",
    );
  return { ...config, databaseUrl };
}

/** The same for a restore. */
export const readRestoreConfig = (environment: NodeJS.ProcessEnv): RestoreConfig =>
  read(() => readVariables(restoreVariables, environment));

function read<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ServiceError("failed_precondition", error instanceof Error ? error.message : String(error), error);
  }
}
