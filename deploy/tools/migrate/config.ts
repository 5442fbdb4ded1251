import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";

const serviceUrl = (service: string): string =>
  `DATABASE_URL of ${service}, whose login is then made where it is missing; empty: its login is left alone.`;

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Minimum log level: debug, info, warn, error.", default: "info" }),
  DATABASE_OWNER_URL: Type.String({
    description: "PostgreSQL, as the owner of the database, who may create schemas and roles.",
    minLength: 1,
  }),
  AUTH_QUOTA_DATABASE_URL: Type.String({ description: serviceUrl("auth-quota"), default: "" }),
  BILLING_DATABASE_URL: Type.String({ description: serviceUrl("billing"), default: "" }),
  VIDEO_TASK_DATABASE_URL: Type.String({ description: serviceUrl("video-task"), default: "" }),
  CONSOLE_DATABASE_URL: Type.String({ description: serviceUrl("console"), default: "" }),
  BACKUP_DATABASE_URL: Type.String({
    description: "URL of a login that reads everything, for backups, which is then made where it is missing.",
    default: "",
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem and shows no value. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  const problems = Object.entries(config).flatMap(([name, value]) =>
    name.endsWith("_URL") && value !== "" ? problemsOfUrl(name, value) : [],
  );
  if (problems.length > 0) throw new Error(`configuration is not usable:\n  ${problems.join("\n  ")}`);
  return config;
}

function problemsOfUrl(name: string, value: string): string[] {
  const example = `${name} must be such as postgres://user:password@host:5432/database`;
  if (!URL.canParse(value)) return [`${example}; characters such as / and @ in a password are percent-encoded`];
  const { protocol, username } = new URL(value);
  if (protocol !== "postgres:" && protocol !== "postgresql:") return [example];
  return username === "" ? [`${example}; it names no user`] : [];
}
