import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { checkLinks, grpcTlsVariables, tracingVariables } from "#shared/stores/link-variables.ts";

const port = { minimum: 0, maximum: 65_535 };
const perMinute = { minimum: 1, maximum: 1_000_000 };

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Least level that is logged: debug, info, warn, error.", default: "info" }),
  GRPC_HOST: Type.String({
    description: "Address that relays, billing and administrators reach.",
    default: "127.0.0.1",
  }),
  GRPC_PORT: Type.Integer({
    description: "Port that relays, billing and administrators reach.",
    ...port,
    default: 7001,
  }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9081 }),
  DATABASE_URL: Type.String({ description: "PostgreSQL, as a member of the role auth_quota_rw.", minLength: 1 }),
  REDIS_URL: Type.String({
    description:
      "Redis 7 or newer, with appendonly and without eviction; rediss:// for TLS, with user:password@ where needed; " +
      "several with commas between: nodes of a Redis Cluster.",
    minLength: 1,
  }),
  REDIS_CA_FILE: Type.String({
    description: "Authorities as PEM of which Redis' certificate must be; empty: those that Node.js knows.",
    default: "",
  }),
  BILLING_ADDRESS: Type.String({ description: "gRPC target of the billing service.", minLength: 1 }),
  RELAY_SILENT_MS: Type.Integer({
    description: "Holds of a relay process that was silent for this long are charged at their last checkpoint.",
    minimum: 1_000,
    default: 120_000,
  }),
  ACCOUNT_REQUESTS_PER_MINUTE: Type.Integer({
    description: "Calls per minute of an account that has no limit of its own.",
    ...perMinute,
    default: 600,
  }),
  IP_REQUESTS_PER_MINUTE: Type.Integer({
    description: "Calls per minute from one IP address.",
    ...perMinute,
    default: 1_200,
  }),
  REBUILD_MS: Type.Integer({
    description: "After Redis has lost data, relays have this long to restore their holds before calls are granted.",
    minimum: 0,
    default: 10_000,
  }),
  ...grpcTlsVariables,
  ...tracingVariables,
  DRAIN_MS: Type.Integer({
    description: "How long batches and calls in hand may take after a stop signal.",
    minimum: 0,
    default: 10_000,
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  checkLinks(config);
  return config;
}
