import assert from "node:assert/strict";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { parse, stringify } from "yaml";
import { cannotRunHelm, chartFolder, render } from "./helm.ts";
import { type KubeObject, ofKind, podsOf } from "./objects.ts";

test(
  "relays and video-task follow applied catalogs when told to, and may ask auth-quota for them",
  { skip: cannotRunHelm },
  async () => {
    const least = parse(await readFile(join(chartFolder, "ci/minimal-values.yaml"), "utf8")) as { catalog: object };
    await using folder = await mkdtempDisposable(join(tmpdir(), "chart-catalog-"));
    const renderAt = async (source: string): Promise<KubeObject[]> => {
      const file = join(folder.path, "values.yaml");
      await writeFile(file, stringify({ ...least, catalog: { ...least.catalog, source } }));
      return render(file);
    };
    const variablesOf = (objects: KubeObject[], component: string): Map<string, string | undefined> => {
      const found = podsOf(objects).find((pod) => pod.component === component && pod.kind === "Deployment");
      return new Map(found?.spec.containers[0]?.env?.map(({ name, value }) => [name, value]));
    };
    const [file, stored] = [await renderAt("file"), await renderAt("stored")];
    for (const component of ["relay", "video-task"]) {
      assert.equal(variablesOf(file, component).get("CATALOG_SOURCE"), undefined);
      assert.equal(variablesOf(stored, component).get("CATALOG_SOURCE"), "stored");
      assert.match(variablesOf(stored, component).get("AUTH_QUOTA_ADDRESS") ?? "", /auth-quota/);
    }
    assert.equal(variablesOf(file, "video-task").get("AUTH_QUOTA_ADDRESS"), undefined);
    const policyOf = (objects: KubeObject[], component: string): string =>
      JSON.stringify(
        ofKind(objects, "NetworkPolicy").filter(({ metadata }) => metadata.name.endsWith(`-${component}`)),
      );
    assert.doesNotMatch(policyOf(file, "video-task"), /auth-quota/);
    assert.match(policyOf(stored, "video-task"), /auth-quota/);
    assert.match(policyOf(stored, "auth-quota"), /video-task/);
    await assert.rejects(renderAt("elsewhere"), /source/);
  },
);
