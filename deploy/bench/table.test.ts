import assert from "node:assert/strict";
import { test } from "node:test";
import { formatFigure, formatRatio, formatSpread, renderTable } from "./table.ts";

test("a table lines up names to the left and figures to the right", () => {
  const table = renderTable(
    ["load", "a"],
    [
      ["json", "1,000"],
      ["s", "7"],
    ],
  );
  assert.equal(table, ["| load |     a |", "|------|------:|", "| json | 1,000 |", "| s    |     7 |"].join("\n"));
});

test("a row that is too short ends in empty cells", () => {
  assert.ok(renderTable(["load", "a", "b"], [["x"]]).endsWith("| x    |   |   |"));
});

test("figures show three digits that matter", () => {
  assert.deepEqual([20_312.4, 153.27, 45.31, 4.567, 0.0371, 0].map(formatFigure), [
    "20,312",
    "153",
    "45.3",
    "4.57",
    "0.0371",
    "0",
  ]);
});

test("a figure that is not known is a dash, never 0 or NaN", () => {
  const unknown = Number.NaN;
  assert.deepEqual(
    [formatFigure(unknown), formatRatio(unknown), formatSpread({ median: unknown, min: unknown, max: unknown })],
    ["–", "–", "–"],
  );
});

test("a spread shows the median and where it lay", () => {
  assert.equal(formatSpread({ median: 45.31, min: 44, max: 51.2 }), "45.3 (44.0…51.2)");
  assert.equal(formatRatio(1.266), "1.27x");
});
