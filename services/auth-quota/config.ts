import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { checkLinks, debugVariables, grpcTlsVariables, tracingVariables } from "#shared/stores/link-variables.ts";

const port = { minimum: 0, maximum: 65_535 };
const perMinute = { minimum: 1, maximum: 1_000_000 };

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Minimum log level: debug, info, warn, error.", default: "info" }),
  GRPC_HOST: Type.String({
    description: "Address on which relays, billing and administrators are served.",
    default: "127.0.0.1",
  }),
  GRPC_PORT: Type.Integer({
    description: "Port on which relays, billing and administrators are served.",
    ...port,
    default: 7001,
  }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9081 }),
  DATABASE_URL: Type.String({
    description: "PostgreSQL connection URL of a member of the role auth_quota_rw.",
    minLength: 1,
  }),
  REDIS_URL: Type.String({
    description:
      "Redis 7 or newer, with appendonly and without eviction; rediss:// for TLS, user:password@ for a login; " +
      "comma-separated for the nodes of a Redis Cluster; " +
      "redis+sentinel://user:password@host:26379,host:26379/master for Sentinels.",
    minLength: 1,
  }),
  REDIS_CA_FILE: Type.String({
    description: "CA bundle (PEM) used to verify Redis; empty: the CAs of Node.js.",
    default: "",
  }),
  REDIS_SHARDS: Type.Integer({
    description:
      "Shards of the hot money, in as many slots of a Redis Cluster. PostgreSQL records it; changed by " +
      "`npm run admin -- shards`.",
    minimum: 1,
    maximum: 64,
    default: 1,
  }),
  BILLING_ADDRESS: Type.String({ description: "gRPC target of the billing service.", minLength: 1 }),
  HOLD_PROOF_KEYS: Type.String({
    description:
      "Comma-separated keys of 32 random bytes in base64, by the first of which holds are proven to billing, which " +
      "has the same.",
    minLength: 1,
  }),
  RELAY_SILENT_MS: Type.Integer({
    description: "Time of silence after which the holds of a relay process are charged at their last checkpoint.",
    minimum: 1_000,
    default: 120_000,
  }),
  ACCOUNT_REQUESTS_PER_MINUTE: Type.Integer({
    description: "Calls per minute for accounts without a limit of their own.",
    ...perMinute,
    default: 600,
  }),
  IP_REQUESTS_PER_MINUTE: Type.Integer({
    description: "Calls per minute per IP address.",
    ...perMinute,
    default: 1_200,
  }),
  ACCOUNT_MAX_CONCURRENT: Type.Integer({
    description:
      "Calls under way for accounts without a limit of their own; 0: as many as they may begin in a minute, " +
      "at least 100.",
    minimum: 0,
    maximum: 100_000,
    default: 0,
  }),
  REBUILD_MS: Type.Integer({
    description: "Time that relays have to restore their holds after Redis lost data, before calls are granted again.",
    minimum: 0,
    default: 10_000,
  }),
  ...grpcTlsVariables,
  ...debugVariables,
  ...tracingVariables,
  DRAIN_MS: Type.Integer({
    description: "Time that batches and calls under way are given after a stop signal.",
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
