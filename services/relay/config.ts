import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import {
  checkLinks,
  debugVariables,
  grpcTlsVariables,
  natsVariables,
  samplingVariables,
  tracingVariables,
} from "#shared/stores/link-variables.ts";

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Minimum log level: debug, info, warn, error.", default: "info" }),
  LOG_SUCCESS_SHARE: Type.Number({
    description: "Share of successful calls that have a log line, 0 to 1; all others always have one.",
    minimum: 0,
    maximum: 1,
    default: 1,
  }),
  HTTP_HOST: Type.String({ description: "Address on which to serve callers.", default: "127.0.0.1" }),
  HTTP_PORT: Type.Integer({
    description: "Port on which to serve callers.",
    minimum: 0,
    maximum: 65_535,
    default: 8080,
  }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({
    description: "Port of /livez, /readyz and /metrics.",
    minimum: 0,
    maximum: 65_535,
    default: 9080,
  }),
  GRPC_HOST: Type.String({ description: "Address of the gRPC state service, for the console.", default: "127.0.0.1" }),
  GRPC_PORT: Type.Integer({
    description: "Port of the gRPC state service, for the console.",
    minimum: 0,
    maximum: 65_535,
    default: 7004,
  }),
  AUTH_QUOTA_ADDRESS: Type.String({ description: "gRPC target of the auth-quota service.", minLength: 1 }),
  VIDEO_TASK_ADDRESS: Type.String({
    description: "gRPC target of the video-task service; empty: this relay offers no videos.",
    default: "",
  }),
  LEASE_FROM_CALLS_PER_SECOND: Type.Integer({
    description:
      "From how many calls of a key in a second on they are admitted within leases, without a round trip to " +
      "auth-quota; 0: never.",
    minimum: 0,
    maximum: 1_000_000,
    default: 0,
  }),
  NATS_URL: Type.String({ description: "NATS servers, separated by commas.", minLength: 1 }),
  CATALOG_FILE: Type.String({
    description: "Models, upstreams and prices; reloaded on change.",
    minLength: 1,
  }),
  CATALOG_SOURCE: Type.Union([Type.Literal("file"), Type.Literal("stored")], {
    description:
      "Which catalog is followed: the file, or the one that operators apply, before the first of which the file's is " +
      "used.",
    default: "file",
  }),
  SPOOL_DIR: Type.String({
    description: "Folder for usage records that are not booked yet; one per relay.",
    minLength: 1,
  }),
  SPOOL_MAX_BYTES: Type.Integer({
    description: "Size of the spool above which no call is accepted.",
    minimum: 1_048_576,
    default: 4_294_967_296,
  }),
  ALLOW_PLAIN_HTTP: Type.Union([Type.Literal("never"), Type.Literal("loopback")], {
    description: "Whether callers on this machine may use plain HTTP; everybody else needs HTTPS.",
    default: "never",
  }),
  TRUSTED_PROXIES: Type.String({
    description:
      "Addresses or networks, separated by commas, whose X-Forwarded-For and X-Forwarded-Proto are " + "trusted.",
    default: "",
  }),
  TLS_CERT_FILE: Type.String({
    description: "Certificate chain (PEM) with which the relay serves TLS itself; reloaded on change.",
    default: "",
  }),
  TLS_KEY_FILE: Type.String({
    description: "Private key (PEM) of the certificate; set both or neither.",
    default: "",
  }),
  DIRECT_HTTP: Type.Union([Type.Literal("on"), Type.Literal("off")], {
    description:
      "Whether plain calls are read and answered on the bare connection, which takes less CPU; off: by node:http, " +
      "as everything else.",
    default: "on",
  }),
  MAX_BODY_BYTES_IN_FLIGHT: Type.Integer({
    description:
      "Maximum bytes of request bodies in memory, four fifths of them for one account or address; what exceeds it " +
      "gets 503.",
    minimum: 167_772_160,
    default: 335_544_320,
  }),
  MAX_CONNECTIONS_PER_ADDRESS: Type.Integer({
    description: "Open connections of an IPv4 address or an IPv6 /64; trusted proxies are not counted.",
    minimum: 1,
    maximum: 1_000_000,
    default: 2_000,
  }),
  MAX_SOCKETS: Type.Integer({
    description: "WebSockets open at once; more are refused with 503.",
    minimum: 1,
    maximum: 1_000_000,
    default: 10_000,
  }),
  MAX_SOCKETS_PER_ACCOUNT: Type.Integer({
    description: "WebSockets of one account open at once; more are refused with 429.",
    minimum: 1,
    maximum: 1_000_000,
    default: 500,
  }),
  MAX_SOCKET_BYTES: Type.Integer({
    description:
      "Maximum bytes of conversations kept for WebSockets, four fifths of them for one account or address; what " +
      "exceeds it must be sent in full again.",
    minimum: 1_048_576,
    default: 134_217_728,
  }),
  SOCKET_IDLE_MS: Type.Integer({
    description: "How long a WebSocket may be open without a turn.",
    minimum: 1_000,
    default: 900_000,
  }),
  MAX_STREAM_EVENT_BYTES: Type.Integer({
    description:
      "Maximum size of a stream event; a stream with a larger one, or one of 500,000 values or lines, breaks off " +
      "there, and is read on for its bill.",
    minimum: 65_536,
    default: 16_777_216,
  }),
  STREAM_HEARTBEAT_MS: Type.Integer({
    description: "Idle time after which an SSE comment is sent; 0 disables it.",
    minimum: 0,
    default: 0,
  }),
  MAX_REPLY_BYTES: Type.Integer({
    description: "Most bytes that are kept of an answer that is not streamed; larger ones pass or are refused.",
    minimum: 65_536,
    default: 67_108_864,
  }),
  ...grpcTlsVariables,
  ...debugVariables,
  ...natsVariables,
  ...tracingVariables,
  ...samplingVariables,
  OTEL_SEMCONV_STABILITY_OPT_IN: Type.String({
    description:
      "If it contains gen_ai_latest_experimental, traces also carry OpenTelemetry's names for " + "generative AI.",
    default: "",
  }),
  DRAIN_MS: Type.Integer({
    description: "How long live calls may continue after a stop signal.",
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
