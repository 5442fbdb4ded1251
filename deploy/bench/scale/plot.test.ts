import assert from "node:assert/strict";
import { test } from "node:test";
import { coresFor, renderCapacity } from "./capacity.ts";
import { niceCeiling, renderPlot } from "./plot.ts";

test("a plot has a line and dots for each name, its marks, and an axis that begins at 0", () => {
  const svg = renderPlot({
    title: "A & B",
    axis: "things",
    unit: "µs",
    marks: ["1", "10", "100"],
    lines: [
      { name: "one", values: [10, 40, 20] },
      { name: "two", values: [5, Number.NaN, 10] },
    ],
  });
  assert.match(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 640 360"/);
  assert.ok(svg.endsWith("</svg>\n"));
  assert.deepEqual(svg.match(/<polyline points="[^"]*"/g), [
    '<polyline points="70,252 345,108 620,204"',
    '<polyline points="70,276 620,252"',
  ]);
  assert.equal(svg.match(/<circle/g)?.length, 5);
  for (const words of ["A &amp; B: µs", "things", "100", "one", "two", "50"])
    assert.ok(svg.includes(`>${words}<`), words);
  assert.ok(!svg.includes("NaN"));
});

test("an axis ends at a number that is easy to read", () => {
  assert.deepEqual([0.7, 1, 3, 14, 51, 180].map(niceCeiling), [1, 1, 5, 20, 100, 200]);
});

test("cores are counted with room for peaks, and never less than are needed", () => {
  assert.equal(coresFor(100_000, 90), 15);
  assert.equal(coresFor(100_000, 91), 16);
  assert.equal(coresFor(1, 1), 1);
});

test("the arithmetic tells each part, and a dash where nothing could be read", () => {
  const table = renderCapacity({ relay: 90, "auth-quota": 20 });
  assert.match(table, /relay pods of one core +\| +90\.0 \| .* \| +15 \|/);
  assert.match(table, /PostgreSQL cores +\| +– \| .* \| +– \|/);
});
