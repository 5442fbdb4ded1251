import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { repository } from "../../tools/checks/run.ts";

// The table of stolen credentials and its tests cannot drift apart: each row names files with tests, and each of these
// has a test whose title says `stolen: ` and the credential.

const folder = join(repository, "services/shared");
const [, section = ""] = readFileSync(join(folder, "README.md"), "utf8").split("## What a stolen credential can do\n");
const rows = section
  .split("\n")
  .filter((line) => line.startsWith("| "))
  .slice(1)
  .map((line) => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "")));
const paths = new Map(
  [...section.matchAll(/\[([\w-]+\.test\.ts)\]\(([^)]+)\)/g)].map(([, name = "", path = ""]) => [name, path]),
);

test("the table has its rows", () => {
  assert.ok(rows.length >= 10);
});

for (const [credential = "", , , tests = ""] of rows) {
  test(`every file of the row has a test for it: ${credential}`, () => {
    const plain = credential.replaceAll("`", "");
    const names = [...tests.matchAll(/[\w-]+\.test\.ts/g)].map(([name]) => basename(name));
    assert.ok(names.length > 0, "a row without a test");
    for (const name of new Set(names)) {
      const path = paths.get(name) ?? assert.fail(`no link to ${name}`);
      const text = readFileSync(join(folder, path), "utf8");
      assert.ok(text.includes(`stolen: ${plain}`), `${name} has no test "stolen: ${plain}"`);
    }
  });
}
