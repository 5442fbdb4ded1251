import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { SecureContextOptions } from "node:tls";
import { makeCertificate, type CertificateFiles } from "#shared/testing/certificate.ts";
import { until } from "#shared/testing/until.ts";
import { listeningLog } from "../testing/fakes.ts";
import { followCertificate } from "./tls.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-tls-"));
after(() => rmSync(folder, { recursive: true, force: true }));

let pairs = 0;

async function makePair(): Promise<CertificateFiles> {
  pairs += 1;
  const files = { certFile: join(folder, `cert-${pairs}.pem`), keyFile: join(folder, `key-${pairs}.pem`) };
  await makeCertificate(files, `pair-${pairs}`);
  return files;
}

test("a first pair that cannot be used is not started with", async () => {
  const [good, other] = [await makePair(), await makePair()];
  const { log } = listeningLog();
  const bad: [string, CertificateFiles, RegExp][] = [
    ["a key of another certificate", { ...good, keyFile: other.keyFile }, /not that of the certificate/],
    ["no key", { ...good, keyFile: join(folder, "absent.pem") }, /ENOENT/],
    ["no certificate", { ...good, certFile: good.keyFile }, /./],
    ["no private key", { ...good, keyFile: good.certFile }, /./],
  ];
  for (const [what, files, reason] of bad) assert.throws(() => followCertificate(files, log), reason, what);
});

test("a replaced certificate is served without a restart; a bad one is refused in the log and the last good one stays", async () => {
  const [files, next] = [await makePair(), await makePair()];
  const { log, lines } = listeningLog();
  using certificate = followCertificate(files, log);
  const served: SecureContextOptions[] = [];
  certificate.serve({ setSecureContext: (context) => void served.push(context) });
  const first = certificate.current();
  assert.equal(first.minVersion, "TLSv1.2");
  const refusals = (): number =>
    lines.filter((line) => line["msg"] === "certificate refused, the last good one stays").length;

  // One file after the other, as they are copied.
  copyFileSync(next.certFile, files.certFile);
  await until("the half replaced pair is refused", () => refusals() === 1);
  assert.deepEqual([certificate.current(), served.length], [first, 0]);
  copyFileSync(next.keyFile, files.keyFile);
  await until("the whole pair is served", () => served.length === 1);
  assert.notDeepEqual(certificate.current().cert, first.cert);
  assert.deepEqual(served, [certificate.current()]);

  writeFileSync(files.certFile, "no certificate");
  await until("the bad one is refused", () => refusals() === 2);
  assert.deepEqual(served, [certificate.current()]);
});
