import { execFile } from "node:child_process";
import { readFileSync, renameSync } from "node:fs";
import { promisify } from "node:util";
import { X509Certificate } from "node:crypto";

const run = promisify(execFile);

export type CertificateFiles = { certFile: string; keyFile: string };

/**
 * Makes a self-signed certificate for 127.0.0.1 and localhost, or for other `hosts` as OpenSSL writes them, with its
 * key, and puts both in place of what is there.
 * Needs the program openssl, which every system that the tests run on has; throws and says so when it is missing.
 */
export async function makeCertificate(
  { certFile, keyFile }: CertificateFiles,
  name: string,
  hosts = "IP:127.0.0.1,DNS:localhost",
): Promise<void> {
  const [newCert, newKey] = [`${certFile}.new`, `${keyFile}.new`];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", newKey];
  const subject = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=${hosts}`];
  try {
    await run("openssl", ["req", "-x509", ...key, "-days", "2", ...subject, "-out", newCert]);
  } catch (error) {
    throw new Error("a test certificate could not be made: is the program openssl installed?", { cause: error });
  }
  renameSync(newKey, keyFile);
  renameSync(newCert, certFile);
}

/** The SHA-256 fingerprint of a certificate file, as a TLS client tells that of its peer. */
export function fingerprintOf(certFile: string): string {
  return new X509Certificate(readFileSync(certFile)).fingerprint256;
}
