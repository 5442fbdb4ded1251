import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { findProgram } from "#shared/testing/binaries.ts";
import { buildHelm, currentHelms } from "../control-plane/programs.ts";
import { goldenFolder, goldenText } from "./golden.ts";
import { ciSets, lint, render, valueSets } from "./helm.ts";

// What `npm run test:examples` runs: the helm that npm has a package of is an old one, and to compile the current ones
// takes minutes.

for (const source of currentHelms) {
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
