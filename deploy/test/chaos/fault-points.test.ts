import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { patchText } from "#shared/testing/patch-source.ts";
import { faultPoints, patchOf } from "./fault-points.ts";
import { shortLeases, taskFaultPoints } from "./task-fault-points.ts";

const root = join(import.meta.dirname, "../../..");

const allFaultPoints = [...faultPoints, ...taskFaultPoints];

describe("every fault point fits its source", () => {
  for (const point of allFaultPoints) {
    test(point.name, () => {
      const path = join(root, point.file);
      const text = readFileSync(path, "utf8");
      assert.match(patchText(path, text, [patchOf(point)]), /globalThis\.passFaultPoint\("[a-z-]+"\)/);
    });
  }

  for (const patch of shortLeases) {
    test(`shorter leases in ${patch.file}`, () => {
      const path = join(root, patch.file);
      const text = readFileSync(path, "utf8");
      assert.notEqual(patchText(path, text, [patch]), text);
    });
  }

  test("no two have the same name", () => {
    assert.equal(new Set(allFaultPoints.map((point) => patchOf(point).replace)).size, allFaultPoints.length);
  });
});
