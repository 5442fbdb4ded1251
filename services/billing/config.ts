import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { checkLinks, grpcTlsVariables, natsVariables, tracingVariables } from "#shared/stores/link-variables.ts";

const port = { minimum: 0, maximum: 65_535 };

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Least level that is logged: debug, info, warn, error.", default: "info" }),
  GRPC_HOST: Type.String({ description: "Address that administrators and services reach.", default: "127.0.0.1" }),
  GRPC_PORT: Type.Integer({ description: "Port that administrators and services reach.", ...port, default: 7002 }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9082 }),
  DATABASE_URL: Type.String({ description: "PostgreSQL, as a member of the role billing_rw.", minLength: 1 }),
  NATS_URL: Type.String({ description: "NATS servers, separated by commas.", minLength: 1 }),
  AUTH_QUOTA_ADDRESS: Type.String({ description: "gRPC target of the auth-quota service.", minLength: 1 }),
  OUTBOX_AGE_MS: Type.Integer({
    description: "A charge unconfirmed for this long is looked up, and published again when it is not booked.",
    minimum: 0,
    default: 30_000,
  }),
  ...grpcTlsVariables,
  ...natsVariables,
  ...tracingVariables,
  DRAIN_MS: Type.Integer({
    description: "How long running calls may go on after a stop signal.",
    minimum: 0,
    default: 10_000,
  }),
  USAGE_ACK_WAIT_MS: Type.Integer({
    description: "After this long events that a lost process had in hand are delivered again.",
    minimum: 1_000,
    default: 60_000,
  }),
  USAGE_STREAM_REPLICAS: Type.Integer({
    description: "Copies of the stream; 3 in production.",
    minimum: 1,
    maximum: 5,
    default: 1,
  }),
  USAGE_STREAM_MAX_BYTES: Type.Integer({
    description: "Size of the stream; before it is full, the oldest booked events are removed from it.",
    minimum: 1_048_576,
    default: 1_073_741_824,
  }),
  RECONCILE_MS: Type.Integer({
    description: "How long between two looks at whether ledger, stream and hot store agree.",
    minimum: 1_000,
    default: 300_000,
  }),
  RECONCILE_SIGNING_KEY_FILE: Type.String({
    description: "PKCS #8 PEM file of the Ed25519 key that signs the report of a day; empty: reports are not signed.",
    default: "",
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  checkLinks(config);
  return config;
}
