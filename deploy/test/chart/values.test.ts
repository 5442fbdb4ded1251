import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { chartFolder } from "./helm.ts";
import { type Schema, schemaProblems } from "./schema.ts";
import { describedValues, readValuesFile, type Tree, undescribed } from "./values-file.ts";
import { readmeWithValues, renderValues } from "./values-table.ts";

const small = `
## @section One
one:
  ## @param one.name What it is called, a | or
  ##   b.
  name: ""
  ## @param one.list All of them.
  list: [1]
## @section Two
## @param two How many.
two: 2
`;

describe("values.yaml", () => {
  test("every value is described, and every description has its value", async () => {
    assert.deepEqual(undescribed(await readValuesFile()), []);
  });

  test("the README shows them", async () => {
    const { is, should } = await readmeWithValues();
    assert.ok(is === should, "run `npm run generate`");
  });

  test("a table has a section's rows, whole sentences and defaults", () => {
    assert.equal(
      renderValues(describedValues(small)),
      `### One

| value | meaning | default |
|---|---|---|
| \`one.name\` | What it is called, a \\| or b. | empty |
| \`one.list\` | All of them. | \`[1]\` |

### Two

| value | meaning | default |
|---|---|---|
| \`two\` | How many. | \`2\` |`,
    );
  });

  test("what is not described, not there, or described twice is named", () => {
    const problems = undescribed(`${small}three: {}\n## @param four It is away.\n## @param two Again.\n`);
    assert.deepEqual(problems, [
      'three has no line "## @param three …"',
      "four is described but not there",
      "two is described twice",
    ]);
  });
});

describe("values.schema.json", () => {
  test("has the values of values.yaml, each with a description, and no others", async () => {
    const schema = JSON.parse(await readFile(join(chartFolder, "values.schema.json"), "utf8")) as Schema;
    assert.deepEqual(schemaProblems(schema, parse(await readValuesFile()) as Tree), []);
  });

  test("a missing value, one too many, an open map and a missing description are named", () => {
    const described = { description: "It." };
    const schema: Schema = {
      additionalProperties: false,
      properties: {
        a: { description: "A.", properties: { b: described, c: described } },
        e: {},
      },
    };
    assert.deepEqual(schemaProblems(schema, { a: { b: "" }, d: 1, e: "" }), [
      "a: unknown keys are accepted",
      "a.c: not in values.yaml",
      "d: not in the schema",
      "e: no description",
    ]);
  });
});
