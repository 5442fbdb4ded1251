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
  GRPC_HOST: Type.String({
    description: "Address on which administrators and services are served.",
    default: "127.0.0.1",
  }),
  GRPC_PORT: Type.Integer({
    description: "Port on which administrators and services are served.",
    ...port,
    default: 7002,
  }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9082 }),
  DATABASE_URL: Type.String({
    description: "PostgreSQL connection URL of a member of the role billing_rw.",
    minLength: 1,
  }),
  NATS_URL: Type.String({ description: "Comma-separated NATS servers.", minLength: 1 }),
  AUTH_QUOTA_ADDRESS: Type.String({ description: "gRPC target of the auth-quota service.", minLength: 1 }),
  OUTBOX_AGE_MS: Type.Integer({
    description: "Age at which an unconfirmed charge is looked up, and republished when it is not booked.",
    minimum: 0,
    default: 30_000,
  }),
  HOLD_PROOF_KEYS: Type.String({
    description:
      "Comma-separated keys of 32 random bytes in base64, as auth-quota has them. An event that is not of a hold by " +
      "one of them is quarantined.",
    minLength: 1,
  }),
  HOLD_PROOF_FROM: Type.String({
    description:
      "Events received before this time (ISO 8601) need no proof: for the upgrade from a version without; empty: all " +
      "need one.",
    default: "",
  }),
  ...grpcTlsVariables,
  ...debugVariables,
  ...natsVariables,
  ...tracingVariables,
  DRAIN_MS: Type.Integer({
    description: "Time that calls under way are given after a stop signal.",
    minimum: 0,
    default: 10_000,
  }),
  USAGE_ACK_WAIT_MS: Type.Integer({
    description: "Time after which events held by a lost process are redelivered.",
    minimum: 1_000,
    default: 60_000,
  }),
  USAGE_STREAM_REPLICAS: Type.Integer({
    description: "Replicas of the stream; 3 in production. A single server holds one, whatever this says.",
    minimum: 1,
    maximum: 5,
    default: 1,
  }),
  USAGE_STREAM_MAX_BYTES: Type.Integer({
    description: "Maximum size of the stream; before it is full, its oldest booked events are removed.",
    minimum: 1_048_576,
    default: 1_073_741_824,
  }),
  RECONCILE_MS: Type.Integer({
    description: "Interval at which ledger, stream and hot store are compared.",
    minimum: 1_000,
    default: 300_000,
  }),
  RECONCILE_SIGNING_KEY_FILE: Type.String({
    description: "PKCS #8 PEM file of the Ed25519 key that signs daily reports; empty: reports are not signed.",
    default: "",
  }),
  LEDGER_KEEP_DAYS: Type.Integer({
    description:
      "Days for which lines stay in the ledger before they are moved to the archive, at least 90; 0: for ever. Needs " +
      "LEDGER_ARCHIVE_URL and RECONCILE_SIGNING_KEY_FILE.",
    minimum: 0,
    default: 0,
  }),
  LEDGER_ARCHIVE_URL: Type.String({
    description:
      "Where days are archived: file:///folder, or https://host/bucket/prefix of an S3-compatible store; empty: nowhere.",
    default: "",
  }),
  LEDGER_ARCHIVE_KEY_ID: Type.String({ description: "Access key id of that store.", default: "" }),
  LEDGER_ARCHIVE_SECRET: Type.String({ description: "Secret access key of that store.", default: "" }),
  LEDGER_ARCHIVE_REGION: Type.String({
    description: "Region of that store, as its signatures name it.",
    default: "us-east-1",
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  checkLinks(config);
  checkArchive(config);
  return config;
}

/**
 * Events may be booked for 60 days, and days are closed two later; the usage stream holds 14 more days of what a
 * restored ledger has lost; and a backup may be as old again.
 */
const shortestKeepDays = 90;

function checkArchive(config: Config): void {
  const { LEDGER_KEEP_DAYS: keepDays, LEDGER_ARCHIVE_URL: url } = config;
  const isBucket = /^https?:/.test(url);
  const hasLogin = config.LEDGER_ARCHIVE_KEY_ID !== "" && config.LEDGER_ARCHIVE_SECRET !== "";
  const problems = [
    keepDays > 0 && keepDays < shortestKeepDays ? `LEDGER_KEEP_DAYS must be 0 or at least ${shortestKeepDays}` : [],
    keepDays > 0 && url === "" ? "LEDGER_KEEP_DAYS is set, and LEDGER_ARCHIVE_URL is not" : [],
    keepDays > 0 && config.RECONCILE_SIGNING_KEY_FILE === ""
      ? "LEDGER_KEEP_DAYS is set, and there is no RECONCILE_SIGNING_KEY_FILE to sign with"
      : [],
    url === "" || ((isBucket || url.startsWith("file:///")) && URL.canParse(url))
      ? []
      : "LEDGER_ARCHIVE_URL must be like file:///folder or https://host/bucket/prefix",
    isBucket && !hasLogin ? "LEDGER_ARCHIVE_URL is a bucket: set LEDGER_ARCHIVE_KEY_ID and LEDGER_ARCHIVE_SECRET" : [],
  ].flat();
  if (problems.length > 0) throw new Error(`configuration is not usable:\n  ${problems.join("\n  ")}`);
}

/** How an S3-compatible archive knows this service. */
export const archiveLogin = (config: Config) => ({
  accessKeyId: config.LEDGER_ARCHIVE_KEY_ID,
  secretAccessKey: config.LEDGER_ARCHIVE_SECRET,
  region: config.LEDGER_ARCHIVE_REGION,
});
