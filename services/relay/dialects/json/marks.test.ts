import assert from "node:assert/strict";
import { test } from "node:test";
import { hasManyMarks } from "./marks.ts";

test("marks are counted wherever they stand, to the last one", () => {
  for (const mark of [",", "[", "{", "\n", "\r"]) {
    const spread = Buffer.from(`${"x".repeat(9_000)}${mark}`.repeat(12));
    assert.equal(hasManyMarks(spread, 11), true, `more than eleven ${JSON.stringify(mark)}`);
    assert.equal(hasManyMarks(spread, 12), false);
    const dense = Buffer.from(mark.repeat(20_000));
    assert.equal(hasManyMarks(dense, 19_999), true);
    assert.equal(hasManyMarks(dense, 20_000), false);
  }
});

test("a text that is shorter than the count is not looked at", () => {
  assert.equal(hasManyMarks(Buffer.from(",,,"), 3), false);
});
