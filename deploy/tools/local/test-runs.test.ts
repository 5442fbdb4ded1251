import assert from "node:assert/strict";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../checks/run.ts";
import type { JobRun } from "./test-verdict.ts";

const shareFile = join(import.meta.dirname, "../../../services/shared/testing/share.ts");

const sources: Record<string, string> = {
  "every.test.mjs": `
    import { before, describe, test } from "node:test";
    describe("suite", { concurrency: 4 }, () => {
      test("passes", async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
      });
      test("fails", () => { throw new Error("as it should"); });
      test.skip("is skipped", () => undefined);
      test.todo("is not written");
      describe("inner", () => test("passes too", (t) => t.test("a part", () => undefined)));
    });
    describe("an empty suite", () => undefined);
    describe("a suite whose hook fails", () => before(() => { throw new Error("the hook") }));
    test("skips itself", (t) => t.skip());
    test("never ends", { timeout: 100 }, () => new Promise((resolve) => setTimeout(resolve, 60_000).unref()));
    test("is last", () => undefined);
  `,
  "unread.test.mjs": 'throw new Error("cannot be loaded");',
  "exit.test.mjs": 'import { test } from "node:test"; test("works", () => undefined); process.exitCode = 3;',
  "leave.test.mjs": 'import { test } from "node:test"; test("leaves", () => process.exit(0));',
  "idle.test.mjs": `
    import { after, before, test } from "node:test";
    before(() => globalThis.isOfIdle = true);
    after(() => globalThis.isOfIdle = false);
    test("waits", () => new Promise((resolve) => setTimeout(resolve, 200).unref()));`,
  "own.test.mjs": `
    import { test } from "node:test";
    test("hooks", () => { if (globalThis.isOfIdle) throw new Error("of another file") });`,
  "share.test.mjs": `
    import { after, test } from "node:test";
    import { share } from ${JSON.stringify(shareFile)};
    const end = async () => void (globalThis.isEnded = true);
    const start = async () => {
      globalThis.starts = (globalThis.starts ?? 0) + 1;
      return { [Symbol.asyncDispose]: end };
    };
    const shared = await share("world", start);
    after(() => shared[Symbol.asyncDispose]());
    test("is in use", () => undefined);`,
  "shared.test.mjs": `
    import { test } from "node:test";
    import "./share.test.mjs?again";
    test("starts once", () => { if (globalThis.starts !== 1 || globalThis.isEnded) throw new Error("not shared") });`,
  "one.test.mjs": 'import { test } from "node:test"; test("one", () => undefined);',
  "two.test.mjs": 'import { test } from "node:test"; test("two", () => { throw new Error("of two") });',
};

const jobs = [
  ["every"],
  ["unread"],
  ["exit"],
  ["one", "two", "unread"],
  ["idle", "own"],
  ["leave", "own"],
  ["share", "shared"],
].map((names) => ({
  files: names.map((name) => `${name}.test.mjs`),
}));

const driver = `
import { runJobs } from ${JSON.stringify(join(import.meta.dirname, "test-runs.ts"))};
const printed = [];
const settings = { root: import.meta.dirname, concurrency: 2, print: (text) => printed.push(text) };
const runs = await runJobs(${JSON.stringify(jobs)}, settings);
process.stdout.write(JSON.stringify({ runs, printed: printed.join("") }));
`;

/** Runs the jobs beside this run, of which they would take themselves for a part if they saw its mark. */
async function runOutside(): Promise<{ runs: JobRun[]; printed: string }> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "test-runs-"));
  const files = Object.entries({ ...sources, "driver.mjs": driver });
  await Promise.all(files.map(([name, source]) => writeFile(join(folder.path, name), source)));
  const { code, output } = await run("env", ["-u", "NODE_TEST_CONTEXT", "node", "driver.mjs"], folder.path);
  assert.equal(code, 0, output);
  return JSON.parse(output) as { runs: JobRun[]; printed: string };
}

test("each test's name, file, outcome and cause are read from the process of its job", async () => {
  const { runs, printed } = await runOutside();
  const outcomesOf = (files: string): string[] =>
    runs
      .filter(({ job }) => job.files.join() === files)
      .flatMap(({ results }) => results)
      .map(({ name, file, outcome, cause }) => [file, outcome, name, cause?.split("\n")[0]].join("|"));
  const every = "every.test.mjs";
  assert.deepEqual(outcomesOf(every), [
    `${every}|passed|suite > passes|`,
    `${every}|failed|suite > fails|Error: as it should`,
    `${every}|skipped|suite > is skipped|`,
    `${every}|skipped|suite > is not written|`,
    `${every}|passed|suite > inner > passes too > a part|`,
    `${every}|passed|suite > inner > passes too|`,
    `${every}|failed|a suite whose hook fails|Error: the hook`,
    `${every}|skipped|skips itself|`,
    `${every}|failed|never ends|test timed out after 100ms`,
    `${every}|passed|is last|`,
  ]);
  const [unread] = runs.filter(({ job }) => job.files.join() === "unread.test.mjs").flatMap(({ results }) => results);
  assert.equal(unread?.outcome, "failed");
  assert.match(unread.cause ?? "", /cannot be loaded/);
  assert.deepEqual(outcomesOf("exit.test.mjs"), [
    "exit.test.mjs|passed|works|",
    "exit.test.mjs|failed|exit.test.mjs|test failed",
  ]);
  assert.deepEqual(outcomesOf("one.test.mjs,two.test.mjs,unread.test.mjs").toSorted(), [
    "one.test.mjs|passed|one|",
    "two.test.mjs|failed|two|Error: of two",
    "unread.test.mjs|failed|unread.test.mjs|Error: cannot be loaded",
  ]);
  assert.deepEqual(outcomesOf("idle.test.mjs,own.test.mjs"), [
    "idle.test.mjs|passed|waits|",
    "own.test.mjs|passed|hooks|",
  ]);
  const sharing = outcomesOf("share.test.mjs,shared.test.mjs");
  assert.ok(sharing.includes("shared.test.mjs|passed|starts once|"), sharing.join("\n"));
  const unfinished = ["leave", "own"].map((name) => `${name}.test.mjs`);
  assert.deepEqual(
    outcomesOf(unfinished.join()).filter((outcome) => outcome.includes("ended before")),
    unfinished.map((file) => `${file}|failed|${file}|its process ended before all of it was run`),
  );
  assert.match(printed, /^every\.test\.mjs \([\d.]+ s\)$/m);
  assert.match(printed, /✖ fails/);
});
