import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { identitiesOf } from "#shared/grpc/identity.ts";
import { startApiServer } from "./api-server.ts";
import { cannotRunHelm, chartFolder, upgrade } from "./helm.ts";

const components = ["relay", "auth-quota", "billing", "video-task", "console"];

test(
  "the release makes certificates between services, and keeps them for a year of upgrades",
  { skip: cannotRunHelm },
  async () => {
    await using cluster = await startApiServer();
    await using folder = await mkdtempDisposable(join(tmpdir(), "chart-certificates-"));
    const file = join(chartFolder, "ci/minimal-values.yaml");
    const run = (replicas: number): Promise<void> =>
      upgrade(cluster.url, folder.path, {
        name: "minimal",
        file,
        sets: ["migrate.enabled=false", "catalog.check=false", `relay.replicas=${replicas}`],
      });
    const secret = (name: string) => cluster.object("secrets", `shop-model-relay-${name}`);
    const readPem = (name: string, key: string): string =>
      Buffer.from((secret(name)["data"] as Record<string, string>)[key] ?? "", "base64").toString();
    const certificateOf = (component: string) => new X509Certificate(readPem(`${component}-grpc-tls`, "tls.crt"));

    await run(2);
    const authority = new X509Certificate(readPem("grpc-authority", "tls.crt"));
    const first = components.map((component) => certificateOf(component));
    for (const [index, certificate] of first.entries()) {
      assert.deepEqual(identitiesOf({ subjectaltname: certificate.subjectAltName ?? "" }), [components[index]]);
      assert.ok(certificate.checkIssued(authority) && certificate.verify(authority.publicKey) && !certificate.ca);
      assert.equal(readPem(`${components[index]}-grpc-tls`, "ca.crt"), readPem("grpc-authority", "tls.crt"));
    }
    await run(3);
    const fingerprints = () => components.map((component) => certificateOf(component).fingerprint256);
    assert.deepEqual(
      fingerprints(),
      first.map(({ fingerprint256 }) => fingerprint256),
    );

    const { annotations } = secret("relay-grpc-tls")["metadata"] as { annotations: Record<string, string> };
    annotations["model-relay/made-at"] = String(Math.floor(Date.now() / 1_000) - 366 * 86_400);
    await run(4);
    assert.notEqual(fingerprints()[0], first[0]?.fingerprint256, "renewed");
    assert.deepEqual(
      fingerprints().slice(1),
      first.slice(1).map(({ fingerprint256 }) => fingerprint256),
    );
    assert.ok(certificateOf("relay").verify(authority.publicKey), "by the same authority");
  },
);
