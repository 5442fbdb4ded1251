import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { findProgram } from "#shared/testing/binaries.ts";
import { repository, run } from "../../tools/checks/run.ts";
import { goldenFolder, goldenText } from "./golden.ts";
import { ciSets, lint, render, valueSets } from "./helm.ts";

// What `npm run test:examples` runs: the helm that npm has a package of is an old one, and to compile the current ones
// takes minutes. Upgrades are tried with the packaged one: these write protobuf, which api-server.ts cannot read.
const current = ["helm.sh/helm/v3/cmd/helm@v3.22.0", "helm.sh/helm/v4/cmd/helm@v4.3.1"];

/** Compiles a helm, once. */
async function buildHelm(source: string): Promise<string> {
  const folder = join(repository, "node_modules/.cache/helm", source.slice(source.indexOf("@") + 1));
  const program = join(folder, "helm");
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  const { code, errors } = await run("env", [`GOBIN=${folder}`, "go", "install", source], repository);
  assert.equal(code, 0, errors);
  return program;
}

for (const source of current) {
  describe(source, { skip: findProgram("go") ? false : "go is not on this machine" }, async () => {
    const program = await buildHelm(source);

    test("accepts every set, warnings count as errors", async () => {
      for (const set of valueSets()) {
        const { code, output, errors } = await lint(set, program);
        assert.equal(code, 0, `${set.name}: ${output}${errors}`);
      }
    });

    test("renders every set as the packaged one does", async () => {
      for (const { name, file, sets } of ciSets()) {
        const text = goldenText(await render(file, sets, { program }));
        assert.ok(text === (await readFile(join(goldenFolder, `${name}.yaml`), "utf8")), `${name} differs`);
      }
    });
  });
}
