import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { goldenFolder, goldenSets, goldenText } from "./golden.ts";
import { cannotRunHelm, render, ciSets } from "./helm.ts";

// With UPDATE_GOLDEN=1 the files are written anew; the diff is the review.
const isUpdate = process.env["UPDATE_GOLDEN"] === "1";

describe("golden renders", { skip: cannotRunHelm }, () => {
  for (const { name, file, sets } of ciSets()) {
    test(`the set ${name} renders as it did`, async () => {
      const golden = join(goldenFolder, `${name}.yaml`);
      const text = goldenText(await render(file, sets));
      if (isUpdate) {
        await mkdir(goldenFolder, { recursive: true });
        await writeFile(golden, text);
      }
      const wanted = await readFile(golden, "utf8").catch(() => "");
      assert.ok(
        text === wanted,
        `${name} differs; look at the diff of: UPDATE_GOLDEN=1 node --test deploy/test/chart/`,
      );
    });
  }

  test("no golden file is left over", () => {
    assert.deepEqual(
      goldenSets().toSorted(),
      ciSets()
        .map(({ name }) => name)
        .toSorted(),
    );
  });
});
