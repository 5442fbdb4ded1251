import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { Gauge, type Registry } from "prom-client";

/** Where a certificate chain and its private key lie, both as PEM. */
export type CertificateFiles = { certFile: string; keyFile: string };

/** A pair that a TLS server or client can use. */
export type Certificate = { cert: Buffer; key: Buffer; notAfter: Date };

/** Reads a pair; throws when it cannot be used: the key is another's, the certificate has expired, or is none. */
export function readCertificate({ certFile, keyFile }: CertificateFiles): Certificate {
  const cert = readFileSync(certFile);
  const key = readFileSync(keyFile);
  const leaf = new X509Certificate(cert);
  if (!leaf.checkPrivateKey(createPrivateKey(key))) throw new Error("the private key is not that of the certificate");
  if (leaf.validToDate.getTime() <= Date.now()) throw new Error(`the certificate expired on ${leaf.validTo}`);
  // Finds what only OpenSSL knows, such as a chain that cannot be read or a key that is too small.
  createSecureContext({ cert, key });
  return { cert, key, notAfter: leaf.validToDate };
}

/** What a certificate is shown for: to callers, between the services, or to NATS. */
export type CertificateUse = "http" | "grpc" | "nats";

const expiryMetric = "tls_certificate_not_after_seconds";

/** Creates the setter of the expiry gauge of a certificate; without a registry, it does nothing. */
export function expiryGauge(registry: Registry | undefined, use: CertificateUse): (notAfter: Date) => void {
  if (!registry) return () => undefined;
  const gauge =
    (registry.getSingleMetric(expiryMetric) as Gauge<"use"> | undefined) ??
    new Gauge({
      name: expiryMetric,
      help: "Expiry of a certificate as Unix time, by use.",
      labelNames: ["use"],
      registers: [registry],
    });
  return (notAfter) => gauge.set({ use }, notAfter.getTime() / 1_000);
}
