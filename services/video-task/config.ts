import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import {
  checkLinks,
  debugVariables,
  grpcTlsVariables,
  natsVariables,
  tracingVariables,
} from "#shared/stores/link-variables.ts";

const port = { minimum: 0, maximum: 65_535 };

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Minimum log level: debug, info, warn, error.", default: "info" }),
  GRPC_HOST: Type.String({ description: "Address on which relays are served.", default: "127.0.0.1" }),
  GRPC_PORT: Type.Integer({ description: "Port on which relays are served.", ...port, default: 7003 }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9083 }),
  DATABASE_URL: Type.String({
    description: "PostgreSQL connection URL of a member of the role video_task_rw.",
    minLength: 1,
  }),
  NATS_URL: Type.String({ description: "Comma-separated NATS servers.", minLength: 1 }),
  BILLING_ADDRESS: Type.String({ description: "gRPC target of the billing service.", minLength: 1 }),
  CATALOG_FILE: Type.String({
    description: "Catalog file; its video upstreams are used. Reloaded on change.",
    minLength: 1,
  }),
  CATALOG_SOURCE: Type.Union([Type.Literal("file"), Type.Literal("stored")], {
    description:
      "Which catalog is followed: the file, or the one that operators apply, before the first of which the file's is " +
      "used.",
    default: "file",
  }),
  AUTH_QUOTA_ADDRESS: Type.String({
    description: "gRPC target of the auth-quota service, needed where the applied catalog is followed.",
    default: "",
  }),
  POLL_INTERVAL_MS: Type.Integer({
    description: "Mean interval between two polls of a running task; each wait is drawn from 0.5 to 1.5 times this.",
    minimum: 10,
    default: 5_000,
  }),
  MAX_POLLS: Type.Integer({
    description: "Maximum number of concurrent polls per process.",
    minimum: 1,
    maximum: 1_000,
    default: 64,
  }),
  SUBMIT_LEASE_MS: Type.Integer({
    description:
      "Lease of a submission; when its process does not renew it for this long, the outcome counts as unknown.",
    minimum: 1_000,
    default: 20_000,
  }),
  GRACE_SECONDS: Type.Integer({
    description: "Time after its deadline before a task fails whose provider does not answer.",
    minimum: 0,
    default: 3_600,
  }),
  CONFIRM_MS: Type.Integer({
    description: "Delay between publishing a charge and checking that the ledger has it.",
    minimum: 10,
    default: 5_000,
  }),
  PROMPT_RETENTION_DAYS: Type.Integer({
    description: "Days after which the prompt of a video is forgotten; that of a deleted one is at once.",
    minimum: 8,
    maximum: 3_650,
    default: 30,
  }),
  ...grpcTlsVariables,
  ...debugVariables,
  ...natsVariables,
  ...tracingVariables,
  DRAIN_MS: Type.Integer({
    description: "Time that submissions under way are given after a stop signal.",
    minimum: 0,
    default: 60_000,
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  checkLinks(config);
  if (config.CATALOG_SOURCE === "stored" && config.AUTH_QUOTA_ADDRESS === "")
    throw new Error("configuration is not usable:\n  CATALOG_SOURCE=stored needs AUTH_QUOTA_ADDRESS");
  return config;
}
