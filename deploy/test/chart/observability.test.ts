import assert from "node:assert/strict";
import { mkdtempDisposable, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { parse } from "yaml";
import { repository } from "../../tools/checks/run.ts";
import { cannotRunHelm, packageChart, render, valueSets } from "./helm.ts";
import { type KubeObject, ofKind } from "./objects.ts";

type Group = { name: string; rules: { annotations?: Record<string, string> }[] };

const source = join(repository, "deploy/observability");
const base = "https://git.example.org/relay/blob/main";
const [anySet] = valueSets();

/** The text of every file of a folder by its name. */
async function textsOf(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(join(source, folder))).toSorted();
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(join(source, folder, name), "utf8")] as const)),
  );
}

describe("rules and dashboards", { skip: cannotRunHelm }, () => {
  let objects: KubeObject[] = [];

  before(async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "chart-package-"));
    const chart = await packageChart(folder.path);
    const on = ["rules.enabled=true", "dashboards.enabled=true", `runbookBaseUrl=${base}`];
    objects = await render(
      anySet?.file ?? "",
      on.map((set) => `monitoring.${set}`),
      { folder: chart },
    );
  });

  test("the packaged chart brings every rules file as it is, its runbooks with the address in front", async () => {
    const files = await textsOf("rules");
    assert.ok(files.size > 0);
    const rendered = new Map(
      ofKind<{ groups: Group[] }>(objects, "PrometheusRule").map(({ metadata, spec }) => [metadata.name, spec.groups]),
    );
    assert.equal(rendered.size, files.size);
    for (const [file, text] of files) {
      const { groups } = parse(text) as { groups: Group[] };
      for (const { annotations } of groups.flatMap(({ rules }) => rules)) {
        if (annotations?.["runbook_url"]) annotations["runbook_url"] = `${base}/${annotations["runbook_url"]}`;
      }
      const [, own] = [...rendered].find(([name]) => name.endsWith(`-${file.replace(".yaml", "")}`)) ?? [];
      assert.deepEqual(own, groups, file);
    }
  });

  test("the packaged chart brings every dashboard letter by letter, where Grafana looks for it", async () => {
    const files = await textsOf("dashboards");
    assert.ok(files.size > 0);
    const maps = objects.filter(({ metadata }) => metadata.labels?.["grafana_dashboard"] === "1");
    const rendered = new Map(maps.flatMap((map) => Object.entries(map["data"] as Record<string, string>)));
    assert.deepEqual([...rendered.keys()].toSorted(), [...files.keys()]);
    for (const [file, text] of files) assert.equal(rendered.get(file)?.trimEnd(), text.trimEnd(), file);
  });
});
