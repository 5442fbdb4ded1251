import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { dialectsFolder, goldenText, matrixCells } from "./testing/matrix.ts";

const golden = join(dialectsFolder, "golden");
const cells = matrixCells();

for (const { name, file, result } of cells) {
  test(`${name} is as its golden file says (npm run generate writes it anew)`, () => {
    assert.equal(goldenText(result), readFileSync(join(golden, file), "utf8"));
  });
}

test("there is no golden file without a cell", () => {
  const files = readdirSync(golden, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".json"));
  assert.deepEqual(files.toSorted(), cells.map(({ file }) => file).toSorted());
});

test("converting is deterministic, so that providers' prompt caches are hit", () => {
  assert.deepEqual(matrixCells(), cells);
});
