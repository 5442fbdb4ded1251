import { Type, type Static, type TObject } from "typebox";

/** Variables of every service that serves or calls gRPC: the three files, or leave to do without them. */
export const grpcTlsVariables = {
  GRPC_CERT_FILE: Type.String({
    description: "Certificate chain (PEM) for mutual TLS over gRPC; its DNS names say which service this is.",
    default: "",
  }),
  GRPC_KEY_FILE: Type.String({ description: "Private key (PEM) of that certificate.", default: "" }),
  GRPC_CA_FILE: Type.String({
    description: "CA bundle (PEM) used to verify the peer; reloaded on change, as are the other two files.",
    default: "",
  }),
  ALLOW_PLAIN_GRPC: Type.Union([Type.Literal("never"), Type.Literal("always")], {
    description: "Whether gRPC may go without TLS: anybody who reaches a port may then call every method.",
    default: "never",
  }),
};

/** Variable of every service that serves gRPC. */
export const debugVariables = {
  DEBUG_CALLS: Type.Union([Type.Literal("off"), Type.Literal("on")], {
    description: "Whether the operator's certificate may look into this process: CPU profile, heap, event loop.",
    default: "off",
  }),
};

export type Debugging = Static<TObject<typeof debugVariables>>;

export type GrpcTls = Static<TObject<typeof grpcTlsVariables>>;

/** The files of a process that has an identity; an empty name stands for none. */
export type GrpcFiles = Pick<GrpcTls, "GRPC_CERT_FILE" | "GRPC_KEY_FILE" | "GRPC_CA_FILE">;

/** Variables of every service that uses NATS, beside NATS_URL. */
export const natsVariables = {
  NATS_CREDS_FILE: Type.String({
    description: "Credentials file of a NATS user (JWT and seed); empty: the login in NATS_URL, or none.",
    default: "",
  }),
  NATS_CA_FILE: Type.String({
    description: "CA bundle (PEM) used to verify NATS; when set, NATS is reached over TLS only.",
    default: "",
  }),
  NATS_CERT_FILE: Type.String({ description: "Client certificate chain (PEM) for NATS.", default: "" }),
  NATS_KEY_FILE: Type.String({ description: "Private key (PEM) of that certificate.", default: "" }),
};

export type NatsLogin = Static<TObject<typeof natsVariables>>;

/** Variable of every service, under the name that OpenTelemetry has given it. */
export const tracingVariables = {
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.String({
    description: "OTLP over HTTP endpoint for traces, such as http://collector:4318; empty: tracing is off.",
    default: "",
  }),
};

/** Variable of the services that people and their programs call. */
export const samplingVariables = {
  OTEL_TRACES_SAMPLER_ARG: Type.Number({
    description: "Share of calls traced, 0 to 1; an incoming traceparent is continued, its sampling flag is ignored.",
    minimum: 0,
    maximum: 1,
    default: 0.01,
  }),
};

const areTogether = (...values: (string | undefined)[]): boolean => new Set(values.map((value) => !value)).size === 1;

/** Throws one Error that names every problem of the variables above, of those that a service has. */
export function checkLinks(config: Partial<GrpcTls & NatsLogin & Debugging>): void {
  const problems = [
    areTogether(config.GRPC_CERT_FILE, config.GRPC_KEY_FILE, config.GRPC_CA_FILE)
      ? []
      : "GRPC_CERT_FILE, GRPC_KEY_FILE and GRPC_CA_FILE are set all or none",
    config.GRPC_CERT_FILE === "" && config.ALLOW_PLAIN_GRPC === "never"
      ? "GRPC_CERT_FILE is not set; ALLOW_PLAIN_GRPC=always does without TLS"
      : [],
    config.GRPC_CERT_FILE === "" && config.DEBUG_CALLS === "on"
      ? "DEBUG_CALLS=on needs GRPC_CERT_FILE: it is for the operator's certificate"
      : [],
    areTogether(config.NATS_CERT_FILE, config.NATS_KEY_FILE)
      ? []
      : "NATS_CERT_FILE and NATS_KEY_FILE are set both or neither",
  ].flat();
  if (problems.length > 0) throw new Error(`configuration is not usable:\n  ${problems.join("\n  ")}`);
}
