import assert from "node:assert/strict";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { readProofKeys } from "#shared/money/hold-proof.ts";
import { startApiServer } from "./api-server.ts";
import { cannotRunHelm, chartFolder, render, upgrade } from "./helm.ts";

const file = join(chartFolder, "ci/minimal-values.yaml");
test(
  "the release makes keys that prove holds, keeps them, and turns to the next without a gap",
  { skip: cannotRunHelm },
  async () => {
    await using cluster = await startApiServer();
    await using folder = await mkdtempDisposable(join(tmpdir(), "chart-hold-proof-"));
    const run = (rotation: number): Promise<void> => {
      const sets = ["migrate.enabled=false", "catalog.check=false", `holdProof.rotation=${rotation}`];
      return upgrade(cluster.url, folder.path, { name: "minimal", file, sets });
    };
    const read = (key: string): string => {
      const { data } = cluster.object("secrets", "shop-model-relay-hold-proof") as { data: Record<string, string> };
      return Buffer.from(data[key] ?? "", "base64").toString();
    };
    const keysOf = (rotation: number): Buffer[] => readProofKeys(read(`keys-${rotation}`));

    await run(1);
    const [first, next] = keysOf(1);
    assert.ok(first && next && !first.equals(next));
    assert.equal(read("from"), "", "a new installation checks from the start");

    await run(1);
    assert.deepEqual(keysOf(1), [first, next], "kept over an upgrade");
    await run(2);
    const turned = keysOf(2);
    assert.deepEqual(turned.slice(0, 2), [next, first], "what pods of the rotation before knew as the next");
    assert.equal(turned.length, 3);
    assert.deepEqual(keysOf(1), [first, next], "for pods of before that start again meanwhile");
  },
);

test(
  "an upgrade that makes the first key takes events without a proof for an hour",
  { skip: cannotRunHelm },
  async () => {
    await using cluster = await startApiServer();
    await using folder = await mkdtempDisposable(join(tmpdir(), "chart-hold-proof-"));
    const run = (name: string): Promise<void> => {
      const sets = ["migrate.enabled=false", "catalog.check=false", `holdProof.existingSecret.name=${name}`];
      return upgrade(cluster.url, folder.path, { name: "minimal", file, sets });
    };
    await run("own");
    await run("");
    const { data } = cluster.object("secrets", "shop-model-relay-hold-proof") as { data: Record<string, string> };
    const aheadMs = Date.parse(Buffer.from(data["from"] ?? "", "base64").toString()) - Date.now();
    assert.ok(aheadMs > 3_500_000 && aheadMs < 3_700_000, `${aheadMs}`);
  },
);

test(
  "auth-quota and billing read the keys, and another rotation begins new pods",
  { skip: cannotRunHelm },
  async () => {
    type Variable = { name: string; valueFrom?: { secretKeyRef: { name: string; key: string } } };
    type Pods = { template: { spec: { containers: { env: Variable[] }[] } } };
    const readers = async (sets: string[]): Promise<string[]> => {
      const deployments = (await render(file, sets)).filter(({ kind }) => kind === "Deployment");
      return deployments.flatMap(({ metadata, spec }) => {
        const [container] = (spec as Pods).template.spec.containers;
        const found = container?.env.find(({ name }) => name === "HOLD_PROOF_KEYS")?.valueFrom?.secretKeyRef;
        return found ? [`${metadata.name} ${found.name} ${found.key}`] : [];
      });
    };
    const of = (secret: string) => ["auth-quota", "billing"].map((name) => `shop-model-relay-${name} ${secret}`);
    assert.deepEqual(await readers([]), of("shop-model-relay-hold-proof keys-1"));
    assert.deepEqual(await readers(["holdProof.rotation=2"]), of("shop-model-relay-hold-proof keys-2"));
    assert.deepEqual(await readers(["holdProof.existingSecret.name=own"]), of("own hold-proof-keys"));
  },
);
