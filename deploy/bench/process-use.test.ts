import assert from "node:assert/strict";
import { test } from "node:test";
import { endedChildrenUs } from "./process-use.ts";

test("what ended children used is read behind the name of the program, whatever that is", () => {
  const times = "S 1 7 7 0 -1 4194560 900 800 0 0 11 22 333 44 20 0 1";
  assert.equal(endedChildrenUs(`7 (postgres) ${times}`), 3_770_000);
  assert.equal(endedChildrenUs(`7 (a b) c) ${times}`), 3_770_000);
  assert.ok(Number.isNaN(endedChildrenUs("")));
});
