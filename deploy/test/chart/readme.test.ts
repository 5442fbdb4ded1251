import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { parse, parseAllDocuments, stringify } from "yaml";
import { repository } from "../../tools/checks/run.ts";
import { cannotRunHelm, chartFolder, render } from "./helm.ts";
import { type KubeObject, podsOf } from "./objects.ts";
import type { Tree } from "./values-file.ts";

/** What the README says of how long each service takes to leave: preStop and the grace period, in seconds. */
function patienceToldIn(readme: string): Map<string, { preStop: number; grace: number }> {
  const rows = readme.matchAll(/^\| ([a-z-]+) \| (\d+) \| .* \| (\d+) \|$/gm);
  return new Map([...rows].map(([, service = "", preStop, grace]) => [service, numbers(preStop, grace)]));
}

const numbers = (preStop: unknown, grace: unknown) => ({ preStop: Number(preStop), grace: Number(grace) });

function patienceOf(objects: KubeObject[]): Map<string, { preStop: number; grace: number }> {
  const leaving = podsOf(objects).filter(({ spec }) => spec.containers[0]?.lifecycle !== undefined);
  return new Map(
    leaving.map(({ component, spec }) => {
      const preStop = spec.containers[0]?.lifecycle?.preStop?.sleep?.seconds;
      return [component, numbers(preStop, spec.terminationGracePeriodSeconds)];
    }),
  );
}

test("the chart installs the version that this repository has", async () => {
  const chart: unknown = parse(await readFile(join(chartFolder, "Chart.yaml"), "utf8"));
  const { version } = JSON.parse(await readFile(join(repository, "package.json"), "utf8")) as { version: string };
  assert.equal((chart as { appVersion: string }).appVersion, version);
});

describe("the chart's README", { skip: cannotRunHelm }, () => {
  let folder: string;
  let readme: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "chart-readme-"));
    readme = await readFile(join(chartFolder, "README.md"), "utf8");
  });
  after(() => rm(folder, { recursive: true }));

  test("its values are enough to install, and its sums are those of the pods", async () => {
    const values = /^```yaml\n([^]*?)^```$/m.exec(readme)?.[1];
    assert.ok(values, "the README shows values");
    const file = join(folder, "values.yaml");
    await writeFile(file, values);
    const objects = await render(file, ["catalog.existingConfigMap=catalog"]);
    const patience = patienceOf(objects);
    assert.equal(patience.size, 5);
    assert.deepEqual(patienceToldIn(readme), patience);
  });

  test("its command makes every key of a Secret that pods ask for by default", async () => {
    const script = /cat >secrets\.env <<END\n([^]*?)^END$/m.exec(readme)?.[1];
    assert.ok(script, "the README makes secrets.env");
    const made = script
      .trim()
      .split("\n")
      .map((line) => line.split("=")[0]);
    const objects = await render(join(chartFolder, "ci/minimal-values.yaml"));
    const wanted = podsOf(objects).flatMap(({ spec }) =>
      spec.containers.flatMap(({ env = [] }) => env.map(({ valueFrom }) => valueFrom?.secretKeyRef)),
    );
    const ofOthers = wanted.filter((ref) => ref !== undefined && !ref.name?.endsWith("-hold-proof"));
    assert.deepEqual(
      ofOthers.filter((ref) => !made.includes(ref?.key)),
      [],
    );
  });

  test("its objects for External Secrets make the Secrets of its values", () => {
    const block = yamlBlocks(readme).find((text) => text.includes("kind: ExternalSecret"));
    assert.ok(block, "the README shows an ExternalSecret");
    const objects = parseAllDocuments(block).map((document) => document.toJS() as ExternalSecret);
    const made = objects.map(({ metadata, spec }) => `${metadata.namespace}/${spec.target.name}`);
    assert.deepEqual(made, ["model-relay/model-relay", "model-relay/provider-keys"]);
  });

  test("its values for the CSI driver mount providers' keys where providers are called", async () => {
    const block = yamlBlocks(readme).find((text) => text.includes("secrets-store.csi.k8s.io"));
    assert.ok(block, "the README shows a CSI volume");
    const file = join(folder, "csi-values.yaml");
    const minimal = await readFile(join(chartFolder, "ci/minimal-values.yaml"), "utf8");
    await writeFile(file, stringify(merged(parse(minimal) as Tree, parse(block) as Tree)));
    const mounting = podsOf(await render(file)).filter(({ spec }) =>
      spec.containers.some(({ volumeMounts = [] }) => volumeMounts.some(({ name }) => name === "providers")),
    );
    assert.deepEqual(mounting.map(({ component }) => component).toSorted(), ["relay", "video-task"]);
  });
});

type ExternalSecret = { metadata: { namespace: string }; spec: { target: { name: string } } };

const yamlBlocks = (readme: string): string[] =>
  [...readme.matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, block = ""]) => block);

/** Values with others over them, one level down. */
const merged = (values: Tree, over: Tree): Tree => ({
  ...values,
  ...Object.fromEntries(
    Object.entries(over).map(([name, value]) => [name, { ...(values[name] as Tree | undefined), ...(value as Tree) }]),
  ),
});
