import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { patchText } from "#shared/testing/patch-source.ts";
import { archiveFaultPoints } from "../../../services/billing/testing/fault-points.ts";
import { chargeFaultPoints } from "../../../services/console/testing/fault-points.ts";
import { fileNameOf } from "./fault-file.ts";
import { faultPoints, moveFaultPoints } from "./fault-points.ts";
import { shortLeases, taskFaultPoints } from "./task-fault-points.ts";

const root = join(import.meta.dirname, "../../..");
const allFaultPoints = [...faultPoints, ...moveFaultPoints, ...taskFaultPoints];

const markOf = /\bfaultPoint\("([^"]+)"\)/g;

/** The marks in the sources, as names of services and of the points. */
function readMarks(): string[] {
  const paths = globSync("services/*/**/*.ts", { cwd: root }).filter((path) => !path.endsWith(".test.ts"));
  return paths.flatMap((path) => {
    const marks = readFileSync(join(root, path), "utf8").matchAll(markOf);
    return [...marks].map(([, name]) => `${path.split("/")[1]}|${name}`);
  });
}

test("every fault point is marked once in its service, and every mark is a fault point that tests know", () => {
  const known = allFaultPoints.map(({ service, name }) => `${service}|${name}`);
  // The console's own tests kill it there.
  const ofConsole = chargeFaultPoints.map((name) => `console|${name}`);
  // Nor do calls pass by the archive.
  const ofArchive = Object.values(archiveFaultPoints).map((name) => `billing|${name}`);
  assert.deepEqual(readMarks().toSorted(), [...known, ...ofConsole, ...ofArchive].toSorted());
});

test("no two fault points are armed by the same file", () => {
  assert.equal(new Set(allFaultPoints.map(({ name }) => fileNameOf(name))).size, allFaultPoints.length);
});

describe("every shorter lease fits its source", () => {
  for (const patch of shortLeases) {
    test(patch.file, () => {
      const path = join(root, patch.file);
      const text = readFileSync(path, "utf8");
      assert.notEqual(patchText(path, text, [patch]), text);
    });
  }
});
