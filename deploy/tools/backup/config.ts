import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { natsVariables } from "#shared/stores/link-variables.ts";

const variables = Type.Object({
  DATABASE_OWNER_URL: Type.String({
    description: "PostgreSQL, as the owner of the database; to restore, one who may create databases.",
    minLength: 1,
  }),
  NATS_URL: Type.String({ description: "NATS servers, comma-separated; empty: streams are left out.", default: "" }),
  ...natsVariables,
  CATALOG_FILE: Type.String({ description: "The catalog, which is copied; empty: it is left out.", default: "" }),
});

export type BackupConfig = Static<typeof variables>;

/** Reads the configuration; throws `failed_precondition`, whose words show no value. */
export function readBackupConfig(environment: NodeJS.ProcessEnv): BackupConfig {
  try {
    return readVariables(variables, environment);
  } catch (error) {
    throw new ServiceError("failed_precondition", error instanceof Error ? error.message : String(error), error);
  }
}
