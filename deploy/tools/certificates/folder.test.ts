import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { identities, identitiesOf } from "#shared/grpc/identity.ts";
import { readCertificate } from "#shared/stores/certificate.ts";
import { grpcFilesIn, keepCertificates } from "./folder.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-certificates-"));
after(() => rmSync(folder, { recursive: true }));
const dayMs = 86_400_000;
const nowMs = Date.now();
const certificateOf = (identity: (typeof identities)[number]): X509Certificate =>
  new X509Certificate(readFileSync(grpcFilesIn(folder, identity).GRPC_CERT_FILE));

test("the first run makes an authority and a certificate for each identity, which names it alone", async () => {
  assert.deepEqual(keepCertificates(folder, nowMs), [...identities]);
  for (const identity of identities) {
    const { GRPC_CERT_FILE: certFile, GRPC_KEY_FILE: keyFile, GRPC_CA_FILE: caFile } = grpcFilesIn(folder, identity);
    readCertificate({ certFile, keyFile });
    const certificate = certificateOf(identity);
    assert.deepEqual(identitiesOf({ subjectaltname: certificate.subjectAltName ?? "" }), [identity]);
    assert.ok(certificate.checkIssued(new X509Certificate(readFileSync(caFile))));
    assert.ok(!certificate.ca);
    assert.equal(statSync(keyFile).mode & 0o777, 0o600);
    const verify = ["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", caFile, certFile];
    assert.match((await promisify(execFile)("openssl", verify)).stdout, /: OK/);
  }
});

test("later runs keep what is good, and make anew what soon expires or is another authority's", () => {
  const kept = certificateOf("relay").fingerprint256;
  assert.deepEqual(keepCertificates(folder, nowMs + 59 * dayMs), []);
  assert.equal(certificateOf("relay").fingerprint256, kept);
  assert.deepEqual(keepCertificates(folder, nowMs + 61 * dayMs, ["relay"]), ["relay"]);
  assert.notEqual(certificateOf("relay").fingerprint256, kept);
  rmSync(join(folder, "authority"), { recursive: true });
  assert.deepEqual(keepCertificates(folder, nowMs), [...identities]);
});

test("a certificate is of the identities that it names in full", () => {
  const of = (subjectaltname: string) => identitiesOf({ subjectaltname });
  assert.deepEqual(of("DNS:relay.model-relay.internal, DNS:admin.model-relay.internal"), ["relay", "admin"]);
  for (const name of [
    "",
    "DNS:relay",
    "DNS:*.model-relay.internal",
    "DNS:x.relay.model-relay.internal",
    "URI:relay.model-relay.internal",
    'DNS:"x, DNS:relay.model-relay.internal, y"',
  ])
    assert.deepEqual(of(name), [], name);
});
