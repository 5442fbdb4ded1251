import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { TestResult } from "./test-results.ts";
import { describeVerdict, filesToRunAgain, judge, type JobRun } from "./test-verdict.ts";

const passed = (file: string, name = "works"): TestResult => ({ name, file, outcome: "passed" });
const failed = (file: string, name = "works"): TestResult => ({
  name,
  file,
  outcome: "failed",
  cause: "it stood still",
});
const skipped = (file: string): TestResult => ({ name: "is skipped", file, outcome: "skipped" });
const run = (files: string[], ...results: TestResult[]): JobRun => ({ job: { files }, results });
const failedRun = (file: string): JobRun => run([file], failed(file));

describe("which files run once more", () => {
  test("none, when nothing failed", () => {
    assert.deepEqual(filesToRunAgain([run(["a"], passed("a"), skipped("a"))]), []);
  });

  test("each file that failed, once, when they are five", () => {
    const runs = ["a", "b", "c", "d"].map(failedRun);
    const both = run(["e"], failed("e", "one"), failed("e", "other"));
    assert.deepEqual(filesToRunAgain([...runs, both, run(["f"], passed("f"))]), ["a", "b", "c", "d", "e"]);
  });

  test("none, when they are more than five", () => {
    assert.deepEqual(filesToRunAgain(["a", "b", "c", "d", "e", "f"].map(failedRun)), []);
  });

  test("of a batch only those that failed", () => {
    const results = [passed("a"), failed("b"), failed("c")];
    assert.deepEqual(filesToRunAgain([run(["a", "b", "c"], ...results)]), ["b", "c"]);
  });

  test("all of a batch with a test that none of its files declares, which counts as the failure of one", () => {
    const batch = run(["a", "b", "c"], failed("shared.ts", "one"), failed("shared.ts", "two"), passed("a"));
    const others = ["e", "f", "g", "h"].map(failedRun);
    assert.deepEqual(filesToRunAgain([batch, ...others]), ["a", "b", "c", "e", "f", "g", "h"]);
    assert.deepEqual(filesToRunAgain([batch, ...others, failedRun("i")]), []);
    assert.deepEqual(filesToRunAgain([run(["a", "b"], failed("a"), passed("shared.ts"))]), ["a", "b"]);
  });

  test("the file that was run, when a test is declared elsewhere", () => {
    assert.deepEqual(filesToRunAgain([run(["a"], failed("shared.ts"))]), ["a"]);
  });
});

describe("the verdict", () => {
  test("without a second run is that of the first", () => {
    const { results, failures, passedLater } = judge(["a", "b", "c", "d", "e", "f"].map(failedRun), []);
    assert.equal(results.length, 6);
    assert.equal(failures.length, 6);
    assert.deepEqual(passedLater, []);
  });

  test("takes the second run of a file for its first, and names what it was that failed", () => {
    const first = [run(["a"], passed("a", "one"), failed("a", "two")), run(["b"], passed("b"))];
    const verdict = judge(first, [run(["a"], passed("a", "one"), passed("a", "two"))]);
    assert.deepEqual(verdict, {
      results: [passed("b"), passed("a", "one"), passed("a", "two")],
      failures: [],
      passedLater: [{ file: "a", name: "two", cause: "it stood still" }],
    });
  });

  test("of a file that fails twice is red, and it is not among those that passed", () => {
    const { failures, passedLater } = judge(
      [failedRun("a"), failedRun("b")],
      [failedRun("a"), run(["b"], passed("b"))],
    );
    assert.deepEqual(failures, [{ file: "a", name: "works", cause: "it stood still" }]);
    assert.deepEqual(passedLater, [{ file: "b", name: "works", cause: "it stood still" }]);
  });

  test("is red when another test of the file fails in the second run", () => {
    const first = run(["a"], failed("a", "one"), passed("a", "two"));
    const second = run(["a"], passed("a", "one"), failed("a", "two"));
    assert.deepEqual(judge([first], [second]).failures, [{ file: "a", name: "two", cause: "it stood still" }]);
  });

  test("keeps what the other files of a batch came to", () => {
    const { results } = judge([run(["a", "b"], passed("a"), failed("b"))], [run(["b"], passed("b"))]);
    assert.deepEqual(results, [passed("a"), passed("b")]);
  });

  test("counts no test of a batch twice whose files all ran again", () => {
    const first = run(["a", "b"], failed("shared.ts", "of a"), passed("shared.ts", "of b"));
    const second = [run(["a"], passed("shared.ts", "of a")), run(["b"], passed("shared.ts", "of b"))];
    const verdict = judge([first], second);
    assert.deepEqual(verdict.results, [passed("shared.ts", "of a"), passed("shared.ts", "of b")]);
    assert.deepEqual(verdict.passedLater, [{ file: "a, b", name: "of a", cause: "it stood still" }]);
    const { failures, passedLater } = judge([first], [failedRun("a"), run(["b"], passed("shared.ts", "of b"))]);
    assert.deepEqual([failures.length, passedLater.length], [1, 0]);
  });
});

test("the failures are told with their causes, and the counts on a last line of their own", () => {
  const first = [run(["a"], failed("a"), skipped("a"), passed("a")), failedRun("b")];
  const text = describeVerdict(judge(first, [first[0] as JobRun, run(["b"], passed("b"))]));
  assert.deepEqual(text.split("\n"), [
    "passed only on the second run:",
    "  b",
    "    works",
    "      it stood still",
    "",
    "failed:",
    "  a",
    "    works",
    "      it stood still",
    "",
    "2 passed, 1 failed, 1 skipped",
  ]);
});
