import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import {
  checkLinks,
  grpcTlsVariables,
  natsVariables,
  samplingVariables,
  tracingVariables,
} from "#shared/stores/link-variables.ts";

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Least level that is logged: debug, info, warn, error.", default: "info" }),
  HTTP_HOST: Type.String({ description: "Address that callers reach.", default: "127.0.0.1" }),
  HTTP_PORT: Type.Integer({ description: "Port that callers reach.", minimum: 0, maximum: 65_535, default: 8080 }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({
    description: "Port of /livez, /readyz and /metrics.",
    minimum: 0,
    maximum: 65_535,
    default: 9080,
  }),
  GRPC_HOST: Type.String({ description: "Address at which the console asks for the state.", default: "127.0.0.1" }),
  GRPC_PORT: Type.Integer({
    description: "Port at which the console asks for the state.",
    minimum: 0,
    maximum: 65_535,
    default: 7004,
  }),
  AUTH_QUOTA_ADDRESS: Type.String({ description: "gRPC target of the auth-quota service.", minLength: 1 }),
  VIDEO_TASK_ADDRESS: Type.String({
    description: "gRPC target of the video-task service; empty: this relay offers no videos.",
    default: "",
  }),
  NATS_URL: Type.String({ description: "NATS servers, separated by commas.", minLength: 1 }),
  CATALOG_FILE: Type.String({
    description: "Models, upstreams and prices; followed while the relay runs.",
    minLength: 1,
  }),
  SPOOL_DIR: Type.String({
    description: "Folder for usage records that are not booked yet; one relay each.",
    minLength: 1,
  }),
  SPOOL_MAX_BYTES: Type.Integer({
    description: "No call is taken while the spool holds more.",
    minimum: 1_048_576,
    default: 4_294_967_296,
  }),
  ALLOW_PLAIN_HTTP: Type.Union([Type.Literal("never"), Type.Literal("loopback")], {
    description: "Whether callers on this machine may come without TLS; everybody else needs HTTPS.",
    default: "never",
  }),
  TRUSTED_PROXIES: Type.String({
    description:
      "Addresses or networks, separated by commas, whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    default: "",
  }),
  TLS_CERT_FILE: Type.String({
    description: "Certificate chain as PEM, with which the relay serves TLS itself; followed while the relay runs.",
    default: "",
  }),
  TLS_KEY_FILE: Type.String({
    description: "Private key of the certificate as PEM; set both or neither.",
    default: "",
  }),
  MAX_BODY_BYTES_IN_FLIGHT: Type.Integer({
    description: "Bytes of request bodies above 64 KiB that are kept in memory at once; what needs more gets 503.",
    minimum: 134_217_728,
    default: 268_435_456,
  }),
  MAX_STREAM_EVENT_BYTES: Type.Integer({
    description: "A stream with a larger event is cut.",
    minimum: 65_536,
    default: 16_777_216,
  }),
  STREAM_HEARTBEAT_MS: Type.Integer({
    description: "A comment is sent in streams of which nothing reached the caller for so long; 0: none.",
    minimum: 0,
    default: 0,
  }),
  MAX_REPLY_BYTES: Type.Integer({
    description: "A whole answer that is larger is refused.",
    minimum: 65_536,
    default: 67_108_864,
  }),
  ...grpcTlsVariables,
  ...natsVariables,
  ...tracingVariables,
  ...samplingVariables,
  OTEL_SEMCONV_STABILITY_OPT_IN: Type.String({
    description: "With gen_ai_latest_experimental in it, traces carry OpenTelemetry's names for generative AI, too.",
    default: "",
  }),
  DRAIN_MS: Type.Integer({
    description: "How long live calls may go on after a stop signal.",
    minimum: 0,
    default: 600_000,
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  checkLinks(config);
  if ((config.TLS_CERT_FILE === "") !== (config.TLS_KEY_FILE === "")) {
    throw new Error("configuration is not usable:\n  TLS_CERT_FILE and TLS_KEY_FILE are set both or neither");
  }
  return config;
}
