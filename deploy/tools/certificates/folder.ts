import { createPrivateKey, X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { certificateNameOf, identities, type Identity } from "#shared/grpc/identity.ts";
import type { GrpcFiles } from "#shared/stores/link-variables.ts";
import { issueCertificate, makeAuthority, type Authority, type Pair } from "./x509.ts";

const dayMs = 86_400_000;
const authorityDays = 3_650;
const certificateDays = 90;
const renewDays = 30;
const authorityName = "model-relay services";

// Tools that know nothing of identities call a service by where it runs.
const localHosts = ["localhost", "127.0.0.1"];

/** The variables of a process whose certificate lies in a folder of `keepCertificates`. */
export function grpcFilesIn(folder: string, identity: Identity): GrpcFiles {
  const at = (file: string): string => join(folder, identity, file);
  return { GRPC_CERT_FILE: at("tls.crt"), GRPC_KEY_FILE: at("tls.key"), GRPC_CA_FILE: at("ca.crt") };
}

/**
 * Makes an authority and a certificate for each identity in folders of their own, and anew what expires within a month;
 * what is there and good stays. The authority's key never leaves the folder `authority`. Gives what was made.
 */
export function keepCertificates(folder: string, nowMs: number, wanted: readonly Identity[] = identities): Identity[] {
  const { authority, cert: ca } = keepAuthority(join(folder, "authority"), nowMs);
  const valid = { from: new Date(nowMs - dayMs), until: new Date(nowMs + certificateDays * dayMs) };
  return wanted.filter((identity) => {
    const { GRPC_CERT_FILE, GRPC_KEY_FILE, GRPC_CA_FILE } = grpcFilesIn(folder, identity);
    if (isGood(GRPC_CERT_FILE, ca, nowMs) && existsSync(GRPC_KEY_FILE) && existsSync(GRPC_CA_FILE)) return false;
    mkdirSync(join(folder, identity), { recursive: true, mode: 0o700 });
    const pair = issueCertificate(authority, [certificateNameOf(identity), ...localHosts], valid);
    put(GRPC_CA_FILE, ca);
    put(GRPC_KEY_FILE, pair.key);
    put(GRPC_CERT_FILE, pair.cert);
    return true;
  });
}

function keepAuthority(folder: string, nowMs: number): { authority: Authority; cert: string } {
  const [certFile, keyFile] = [join(folder, "ca.crt"), join(folder, "ca.key")];
  const valid = { from: new Date(nowMs - dayMs), until: new Date(nowMs + authorityDays * dayMs) };
  const isThere = existsSync(certFile) && existsSync(keyFile);
  const pair: Pair = isThere
    ? { cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") }
    : makeAuthority(authorityName, valid);
  if (!isThere) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    put(keyFile, pair.key);
    put(certFile, pair.cert);
  }
  return { authority: { name: authorityName, key: createPrivateKey(pair.key) }, cert: pair.cert };
}

function isGood(certFile: string, ca: string, nowMs: number): boolean {
  if (!existsSync(certFile)) return false;
  const certificate = new X509Certificate(readFileSync(certFile));
  const leftMs = certificate.validToDate.getTime() - nowMs;
  return leftMs > renewDays * dayMs && certificate.verify(new X509Certificate(ca).publicKey);
}

/** Readers see the old content or the new one. */
function put(file: string, text: string): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}
