import assert from "node:assert/strict";
import { test } from "node:test";
import { repository } from "../checks/run.ts";
import { longest, planJobs, readSources } from "./test-jobs.ts";

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
  assert.deepEqual(planJobs(texts), {
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
  });
});

test("every test of the repository but the long ones is run once, and each of the longest is there", () => {
  process.chdir(repository);
  const texts = readSources();
  const { together, alone } = planJobs(texts);
  const run = [...together, ...alone].flatMap(({ files }) => files);
  const tests = [...texts.keys()].filter((path) => path.endsWith(".test.ts") && !path.endsWith(".long.test.ts"));
  assert.deepEqual(run.toSorted(), tests.toSorted());
  for (const path of longest) assert.ok(run.includes(path), path);
});
