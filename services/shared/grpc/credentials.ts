import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import * as grpc from "@grpc/grpc-js";
import type { Registry } from "prom-client";
import { expiryGauge, readCertificate } from "../stores/certificate.ts";
import { followFiles } from "../process/follow-files.ts";
import type { GrpcFiles } from "../stores/link-variables.ts";
import type { Logger } from "../process/log.ts";

/** How a process shows itself over gRPC and knows who is at the other end, as a client and as a server. */
export type GrpcCredentials = Disposable & {
  client: grpc.ChannelCredentials;
  server: grpc.ServerCredentials;
  /** Whether the other end is known. */
  isMutual: boolean;
};

/** Connections without TLS. */
export const plainGrpc: GrpcCredentials = {
  client: grpc.credentials.createInsecure(),
  server: grpc.ServerCredentials.createInsecure(),
  isMutual: false,
  [Symbol.dispose]: () => undefined,
};

type Provider = grpc.experimental.CertificateProvider;
type CaListener = Parameters<Provider["addCaCertificateListener"]>[0];
type IdentityListener = Parameters<Provider["addIdentityCertificateListener"]>[0];

/**
 * Mutual TLS with the files that the variables name, or plain connections when they name none. Either end must show a
 * certificate of the authorities, and a server one of the service that is called. The files are followed: new
 * connections take what is there, open ones go on. A first set that cannot be used throws; a later one is refused in
 * the log, and the last good one stays in force.
 */
export function openGrpcCredentials(config: GrpcFiles, log: Logger, registry?: Registry): GrpcCredentials {
  const { GRPC_CERT_FILE: certFile, GRPC_KEY_FILE: keyFile, GRPC_CA_FILE: caFile } = config;
  if (certFile === "") {
    log.warn("gRPC goes without TLS: anybody who reaches a port may call every method");
    return plainGrpc;
  }
  const read = () => {
    const caCertificate = readFileSync(caFile);
    // OpenSSL passes over what is no certificate; then nobody would be known.
    void new X509Certificate(caCertificate);
    return { caCertificate, identity: readCertificate({ certFile, keyFile }) };
  };
  const tellExpiry = expiryGauge(registry, "grpc");
  const authorities = new Set<CaListener>();
  const identities = new Set<IdentityListener>();
  const followed = followFiles([certFile, keyFile, caFile], read, {
    onReplaced: ({ identity }) => {
      for (const listener of identities) listener(identityNow());
      for (const listener of authorities) listener(authoritiesNow());
      tellExpiry(identity.notAfter);
      log.info({ expires: identity.notAfter }, "gRPC certificate reloaded");
    },
    onRefused: (error) => log.error({ err: error }, "gRPC certificate refused, the last good one stays"),
  });
  const identityNow = () => {
    const { cert, key } = followed.current().identity;
    return { certificate: cert, privateKey: key };
  };
  const authoritiesNow = () => ({ caCertificate: followed.current().caCertificate });
  // gRPC takes no answer before it has finished asking.
  const provider: Provider = {
    addCaCertificateListener: (listener) => {
      authorities.add(listener);
      process.nextTick(() => listener(authoritiesNow()));
    },
    removeCaCertificateListener: (listener) => void authorities.delete(listener),
    addIdentityCertificateListener: (listener) => {
      identities.add(listener);
      process.nextTick(() => listener(identityNow()));
    },
    removeIdentityCertificateListener: (listener) => void identities.delete(listener),
  };
  tellExpiry(followed.current().identity.notAfter);
  const { createCertificateProviderChannelCredentials, createCertificateProviderServerCredentials } = grpc.experimental;
  return {
    client: createCertificateProviderChannelCredentials(provider, provider),
    server: createCertificateProviderServerCredentials(provider, provider, true),
    isMutual: true,
    [Symbol.dispose]: () => followed[Symbol.dispose](),
  };
}
