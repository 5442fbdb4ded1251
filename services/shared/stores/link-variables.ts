import { Type, type Static, type TObject } from "typebox";

/** Variables of every service that serves or calls gRPC: all three files, or none for plain connections. */
export const grpcTlsVariables = {
  GRPC_CERT_FILE: Type.String({
    description: "Certificate chain (PEM) for mutual TLS between services over gRPC; empty: plaintext connections.",
    default: "",
  }),
  GRPC_KEY_FILE: Type.String({ description: "Private key (PEM) of that certificate.", default: "" }),
  GRPC_CA_FILE: Type.String({
    description: "CA bundle (PEM) used to verify the peer; reloaded on change, as are the other two files.",
    default: "",
  }),
};

export type GrpcTls = Static<TObject<typeof grpcTlsVariables>>;

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
export function checkLinks(config: Partial<GrpcTls & NatsLogin>): void {
  const problems = [
    areTogether(config.GRPC_CERT_FILE, config.GRPC_KEY_FILE, config.GRPC_CA_FILE)
      ? []
      : "GRPC_CERT_FILE, GRPC_KEY_FILE and GRPC_CA_FILE are set all or none",
    areTogether(config.NATS_CERT_FILE, config.NATS_KEY_FILE)
      ? []
      : "NATS_CERT_FILE and NATS_KEY_FILE are set both or neither",
  ].flat();
  if (problems.length > 0) throw new Error(`configuration is not usable:\n  ${problems.join("\n  ")}`);
}
