import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { checkLinks, grpcTlsVariables, natsVariables, tracingVariables } from "#shared/stores/link-variables.ts";

const port = { minimum: 0, maximum: 65_535 };

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Least level that is logged: debug, info, warn, error.", default: "info" }),
  GRPC_HOST: Type.String({ description: "Address that relays reach.", default: "127.0.0.1" }),
  GRPC_PORT: Type.Integer({ description: "Port that relays reach.", ...port, default: 7003 }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9083 }),
  DATABASE_URL: Type.String({ description: "PostgreSQL, as a member of the role video_task_rw.", minLength: 1 }),
  NATS_URL: Type.String({ description: "NATS servers, separated by commas.", minLength: 1 }),
  BILLING_ADDRESS: Type.String({ description: "gRPC target of the billing service.", minLength: 1 }),
  CATALOG_FILE: Type.String({
    description: "The catalog, of which the upstreams for videos are read; followed while the service runs.",
    minLength: 1,
  }),
  LOOK_MS: Type.Integer({
    description:
      "How long between two looks at a task that runs; each wait is drawn from half to one and a half of it.",
    minimum: 10,
    default: 5_000,
  }),
  MAX_LOOKS: Type.Integer({
    description: "Looks under way at once from one process.",
    minimum: 1,
    maximum: 1_000,
    default: 64,
  }),
  SUBMIT_LEASE_MS: Type.Integer({
    description: "A submission whose process says nothing for so long counts as unknown.",
    minimum: 1_000,
    default: 20_000,
  }),
  GRACE_SECONDS: Type.Integer({
    description: "How long beyond its deadline a task waits for a provider that does not answer, before it fails.",
    minimum: 0,
    default: 3_600,
  }),
  CONFIRM_MS: Type.Integer({
    description: "How long after a charge was published the ledger is asked for it.",
    minimum: 10,
    default: 5_000,
  }),
  ...grpcTlsVariables,
  ...natsVariables,
  ...tracingVariables,
  DRAIN_MS: Type.Integer({
    description: "How long submissions may go on after a stop signal.",
    minimum: 0,
    default: 60_000,
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  checkLinks(config);
  return config;
}
