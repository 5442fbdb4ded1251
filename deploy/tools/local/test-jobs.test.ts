import assert from "node:assert/strict";
import { test } from "node:test";
import { dayMs } from "#shared/process/clock.ts";
import { repository } from "../checks/run.ts";
import { drills, drillsOn, longest, planJobs, readSources } from "./test-jobs.ts";

// Written apart, or this file would be taken for one of those.
const shared = ["shared", "World"].join("");
const server = 'import { spawn } from "node:child_process";';

test("tests without servers share processes, as do those on one system, of one service and end to end; the longest go first, and what takes every core runs by itself", () => {
  const [first = "", second = ""] = longest;
  const texts = new Map([
    ["deploy/test/e2e/a.test.ts", server],
    ["deploy/test/e2e/g.test.ts", server],
    ["deploy/test/usage/x.test.ts", server],
    ["deploy/test/e2e/b.test.ts", `${server} await ${shared}();`],
    ["deploy/test/e2e/c.test.ts", `${server} await ${shared}(videoCatalog);`],
    ["deploy/test/e2e/d.test.ts", `${server} await ${shared}();`],
    ["deploy/test/e2e/e.test.ts", `${server} await ${shared}With(() => more);`],
    [second, server],
    [first, server],
    ["deploy/test/e2e/f.long.test.ts", server],
    ["deploy/test/simulation/simulation.test.ts", server],
    ["deploy/test/recordings/replay.test.ts", server],
    ["services/a/x.test.ts", ""],
    ["services/console/app.test.ts", server],
    ["services/console/access.test.ts", server],
    ["services/b/x.test.ts", server],
    ["services/b/y.test.ts", server],
    ["services/c/x.test.ts", server],
    ["services/a/x.ts", ""],
    ["services/a/y.test.ts", ""],
  ]);
  assert.deepEqual(
    planJobs(texts, () => true),
    {
      together: [
        { files: [first] },
        { files: [second] },
        { files: ["deploy/test/e2e/b.test.ts", "deploy/test/e2e/d.test.ts"] },
        { files: ["deploy/test/e2e/c.test.ts"] },
        { files: ["deploy/test/e2e/e.test.ts"] },
        { files: ["deploy/test/e2e/a.test.ts", "deploy/test/e2e/g.test.ts"] },
        { files: ["services/b/x.test.ts", "services/b/y.test.ts"] },
        { files: ["services/c/x.test.ts"] },
        { files: ["services/console/access.test.ts", "services/console/app.test.ts"] },
        { files: ["deploy/test/usage/x.test.ts"] },
        { files: ["services/a/x.test.ts", "services/a/y.test.ts"] },
      ],
      alone: [
        { files: ["deploy/test/recordings/replay.test.ts"] },
        { files: ["deploy/test/simulation/simulation.test.ts"] },
      ],
    },
  );
});

/** The tests that `npm test` runs at a time. */
function testsAt(texts: ReadonlyMap<string, string>, nowMs: number): string[] {
  const { left } = drillsOn(nowMs);
  const { together, alone } = planJobs(texts, (path) => !left.includes(path));
  return [...together, ...alone].flatMap(({ files }) => files);
}

test("every test of the repository but the long ones is run within any three days, once a day but the drills", () => {
  process.chdir(repository);
  const texts = readSources();
  const tests = [...texts.keys()].filter((path) => path.endsWith(".test.ts") && !path.endsWith(".long.test.ts"));
  const others = tests.filter((path) => !drills.flat().includes(path)).toSorted();
  const days = [20_000, 20_001, 20_002].map((day) => testsAt(texts, (day + 0.5) * dayMs));
  for (const run of days) assert.deepEqual(run.filter((path) => others.includes(path)).toSorted(), others);
  assert.deepEqual([...new Set(days.flat())].toSorted(), tests.toSorted());
  for (const path of longest) assert.ok(days.flat().includes(path), path);
});

test("a drill is a test that is here, of one day, without which every clause of the API spec and the core are run", () => {
  process.chdir(repository);
  const texts = readSources();
  const all = drills.flat();
  assert.equal(new Set(all).size, all.length);
  for (const path of all) {
    assert.ok(path.endsWith(".test.ts") && texts.has(path), path);
    assert.doesNotMatch(texts.get(path) ?? "", /API spec, /, path);
  }
  const core = ["kill-relay", "kill-auth-quota", "kill-billing", "console", "skew"].map((name) => `e2e/${name}`);
  for (const path of [...core, "chaos/short"].map((name) => `deploy/test/${name}.test.ts`)) {
    assert.ok(texts.has(path) && !all.includes(path), path);
  }
});

test("the drills of a day are the same from its first moment to its last", () => {
  const day = 20_001 * dayMs;
  assert.deepEqual(drillsOn(day), drillsOn(day + dayMs - 1));
  assert.notDeepEqual(drillsOn(day), drillsOn(day - 1));
  assert.deepEqual(drillsOn(day), drillsOn(day + 3 * dayMs));
});
