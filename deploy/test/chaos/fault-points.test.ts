import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { patchText } from "#shared/testing/patch-source.ts";
import { faultPoints, patchOf } from "./fault-points.ts";
import { taskFaultPoints } from "./task-fault-points.ts";

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

  test("no two have the same name", () => {
    assert.equal(new Set(allFaultPoints.map((point) => patchOf(point).replace)).size, allFaultPoints.length);
  });
});
