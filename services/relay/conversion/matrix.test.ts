import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { dialectsFolder, goldenText, matrixCells } from "../testing/matrix.ts";

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

test("the matrix: what becomes of every fixture in every other dialect", (context) => {
  const rows = new Map<string, { written: number; refused: number }>();
  for (const { name, file, result } of cells) {
    const [from = "", to = ""] = name.split(" → ");
    const row = `${file.split("/")[0]}: ${from.split(" ")[0]} → ${to}`;
    const counts = rows.get(row) ?? { written: 0, refused: 0 };
    rows.set(row, counts);
    if (typeof result === "object" && result !== null && "refused" in result) counts.refused += 1;
    else counts.written += 1;
  }
  for (const [row, { written, refused }] of rows)
    context.diagnostic(`${row}: ${written} converted, ${refused} refused`);
  // Three formats of callers to four of providers, less the three that need no conversion; there and back.
  assert.equal(rows.size, 9 + 9);
});
