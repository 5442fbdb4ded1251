import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { Type } from "typebox";
import { renderAnswerKinds } from "../../../services/relay/testing/answer-kinds.ts";
import { linkRecipes, renderRecipes } from "../../test/clients/recipes.ts";
import { renderErrorTable } from "../../test/contract/error-table.ts";
import { callersTable } from "../../test/contract/callers-table.ts";
import {
  callersReadme,
  declaredServices,
  firstReadme,
  relayReadme,
  renderVariables,
  withTable,
} from "./readme-tables.ts";

const services = await declaredServices();

for (const { service, readmeFile, variables } of services) {
  test(`the README of ${service} shows the variables as config.ts declares them`, async () => {
    const readme = await readFile(readmeFile, "utf8");
    const rendered = withTable(readme, "variables", renderVariables(variables));
    assert.ok(rendered, `services/${service}/README.md has no <!-- variables:start --> and <!-- variables:end -->`);
    assert.equal(readme, rendered, "run `npm run generate`");
  });

  test(`every variable of ${service} says what it means, in a sentence`, () => {
    for (const [name, declared] of Object.entries(variables.properties)) {
      assert.match("description" in declared ? String(declared.description) : "", /^\S.+\.$/, name);
    }
  });
}

test("the relay's README shows the errors as failures.ts has them", async () => {
  const readme = await readFile(relayReadme, "utf8");
  assert.equal(readme, withTable(readme, "errors", renderErrorTable()), "run `npm run generate`");
  assert.equal(readme, withTable(readme, "answers", renderAnswerKinds()), "run `npm run generate`");
});

test("the READMEs show the recipes of clients as the console has them", async () => {
  const readme = await readFile(relayReadme, "utf8");
  assert.equal(readme, withTable(readme, "recipes", renderRecipes()), "run `npm run generate`");
  const first = await readFile(firstReadme, "utf8");
  assert.equal(first, withTable(first, "recipes", linkRecipes()), "run `npm run generate`");
});

test("the README of the shared code shows who may call what, as the services have it", async () => {
  const readme = await readFile(callersReadme, "utf8");
  assert.equal(readme, withTable(readme, "callers", callersTable()), "run `npm run generate`");
});

test("a row tells name, meaning, default and limits", () => {
  const table = renderVariables(
    Type.Object({
      PORT: Type.Integer({ description: "Port.", minimum: 1, maximum: 65_535, default: 8080 }),
      WAIT_MS: Type.Integer({ description: "How long.", minimum: 1_000, default: 60_000 }),
      ADDRESS: Type.String({ description: "Where.", minLength: 1 }),
      NAME: Type.Optional(Type.String({ description: "A | B.", maxLength: 20 })),
      PROXIES: Type.String({ description: "Whom to trust.", default: "" }),
      MODE: Type.Union([Type.Literal("a"), Type.Literal("b")], { description: "Which.", default: "a" }),
    }),
  );
  assert.deepEqual(table.split("\n").slice(2), [
    "| `PORT` | Port. | `8080` | 1 to 65,535 |",
    "| `WAIT_MS` | How long. | `60000` | at least 1,000 |",
    "| `ADDRESS` | Where. | must be set | not empty |",
    "| `NAME` | A \\| B. | not set | at most 20 characters |",
    "| `PROXIES` | Whom to trust. | empty |  |",
    "| `MODE` | Which. | `a` | `a` or `b` |",
  ]);
});

test("only what is between the markers is replaced, and a second time changes nothing", () => {
  const readme = "# a\n\n<!-- variables:start -->\nold\n<!-- variables:end -->\n\nafter\n";
  const once = withTable(readme, "variables", "| table |") ?? "";
  assert.equal(once, "# a\n\n<!-- variables:start -->\n\n| table |\n\n<!-- variables:end -->\n\nafter\n");
  assert.equal(withTable(once, "variables", "| table |"), once);
  assert.equal(withTable("# a\n", "variables", "| table |"), undefined);
  assert.equal(withTable(readme, "errors", "| table |"), undefined);
});
