import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { parse } from "yaml";
import { repository } from "../../tools/checks/run.ts";
import { cannotRunHelm, chartFolder, render } from "./helm.ts";
import { type KubeObject, podsOf } from "./objects.ts";

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
});
