import assert from "node:assert/strict";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { repository, run } from "../../tools/checks/run.ts";
import { countClauses, readCounted } from "./coverage.ts";
import type { SpecClause } from "./spec-rows.ts";

const clauses: SpecClause[] = [
  { section: "Limits", row: "Request body size", quote: "above it, 400" },
  { section: "Cases", row: "`/v1` twice", quote: "| 404 |" },
  { section: "Cases", row: "`/v1` twice", quote: "`Invalid URL" },
];
const passed = (name: string) => ({ name, isPassed: true });

test("a clause is covered by a passed test whose name contains its row's title and then its quote", () => {
  const { isComplete, text } = countClauses(clauses, [
    passed("API spec, Limits: Request body size: above it, 400, at the edge"),
    passed("paths > API spec, Cases: `/v1` twice | 404 | `Invalid URL > /v1/messages"),
  ]);
  assert.deepEqual({ isComplete, text }, { isComplete: true, text: "API spec clauses covered: 3 of 3" });
});

test("another case, another section, another wording and a skipped test do not cover a clause", () => {
  const { isComplete, text } = countClauses(clauses, [
    passed("api spec, limits: request body size: above it, 400"),
    passed("API spec, Cases: Request body size: above it, 400"),
    passed("API spec, Limits, Request body size: above it, 400"),
    passed("API spec, Cases: `/v1` twice `Invalid URL"),
    { name: "API spec, Limits: Request body size: above it, 400", isPassed: false },
  ]);
  assert.equal(isComplete, false);
  assert.deepEqual(text.split("\n"), [
    "no passing test: API spec, Limits: Request body size … above it, 400 (its tests were skipped)",
    "no passing test: API spec, Cases: `/v1` twice … | 404 |",
    "API spec clauses covered: 1 of 3",
  ]);
});

const source = `
import { describe, test } from "node:test";
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
test("skips itself", (t) => t.skip());
test("is last", () => undefined);
`;

test("the reporter names each test that did not fail, with its suites, and tells passed ones from skipped ones", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "coverage-"));
  const [file, written] = [join(folder.path, "a.test.mjs"), join(folder.path, "written")];
  await writeFile(file, source);
  const reporter = join(repository, "deploy/test/contract/passed-tests.ts");
  const finished = await run(
    "env",
    // Without its mark the run would take itself for a part of this one.
    [
      "-u",
      "NODE_TEST_CONTEXT",
      "node",
      "--test",
      `--test-reporter=${reporter}`,
      `--test-reporter-destination=${written}`,
      file,
    ],
    folder.path,
  );
  assert.equal(finished.code, 1);
  assert.deepEqual(readCounted(await readFile(written, "utf8")), [
    passed("suite > passes"),
    { name: "suite > is skipped", isPassed: false },
    { name: "suite > is not written", isPassed: false },
    passed("suite > inner > passes too > a part"),
    passed("suite > inner > passes too"),
    { name: "skips itself", isPassed: false },
    passed("is last"),
  ]);
});
