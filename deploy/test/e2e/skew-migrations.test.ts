import assert from "node:assert/strict";
import { glob, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describe, test } from "node:test";
import { filesBefore, root, whyNotKnown } from "./previous-version.ts";
import { problemsOf } from "./skew-migrations.ts";

const before = new Set(["0001_first", "0002_second"]);
const problems = (text: string): string[] => problemsOf({ name: "0003_third", text }, before);

describe("a migration that the version before could not live with", () => {
  const broken = [
    "ALTER TABLE a DROP COLUMN b;",
    "DROP TABLE a;",
    "ALTER TABLE a DROP b;",
    "ALTER TABLE a RENAME COLUMN b TO c;",
    "ALTER TABLE a RENAME TO b;",
    "ALTER TABLE a ALTER COLUMN b SET NOT NULL;",
    "ALTER TABLE a ALTER b TYPE bigint;",
    "ALTER TABLE a ALTER COLUMN b SET DATA TYPE bigint USING b::bigint;",
    "ALTER TABLE a ADD COLUMN b text NOT NULL;",
    "ALTER TABLE a ADD COLUMN b text DEFAULT '', ADD c text NOT NULL;",
  ];
  for (const text of broken) {
    test(text, () => {
      assert.equal(problems(text).length, 1, String(problems(text)));
      assert.deepEqual(problems(`-- contract of 0002_second\n${text}`), []);
      assert.equal(problems(`-- contract of 0003_third\n${text}`).length, 1);
    });
  }

  const sound = [
    "ALTER TABLE a ADD COLUMN b text;",
    "ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT '';",
    "ALTER TABLE a ALTER COLUMN b DROP NOT NULL, ALTER COLUMN c DROP DEFAULT;",
    "ALTER TABLE a DROP CONSTRAINT a_b_check, ADD CHECK (b IS NOT NULL OR c);",
    "CREATE TABLE a (b text NOT NULL, type text NOT NULL);",
    "-- nothing is renamed: DROP TABLE would be wrong\nCREATE INDEX i ON a (b);",
    "INSERT INTO a VALUES ('drop table');",
    "CREATE TABLE a (b text);\n-- Down Migration\nDROP TABLE a;",
  ];
  for (const text of sound) test(`not: ${text}`, () => assert.deepEqual(problems(text), []));
});

test("no migration since the version before breaks it", { skip: whyNotKnown }, async () => {
  const known = await filesBefore("services");
  for await (const file of glob("services/*/store/migrations/*.sql", { cwd: root })) {
    if (known.has(file)) continue;
    const own = [...known].filter((one) => dirname(one) === dirname(file)).map((one) => basename(one, ".sql"));
    const text = await readFile(join(root, file), "utf8");
    assert.deepEqual(problemsOf({ name: file, text }, new Set(own)), []);
  }
});
