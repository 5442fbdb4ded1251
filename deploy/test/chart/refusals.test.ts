import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { cannotRunHelm, chartFolder, template } from "./helm.ts";
import { malformed, type Refusal, refusals } from "./refusals.ts";

async function refusalOf({ set, words }: Refusal): Promise<string> {
  const { code, errors } = await template(join(chartFolder, "ci", `${set}-values.yaml`), words);
  assert.notEqual(code, 0, `${words.join(" ")} is accepted`);
  return errors;
}

/** The texts of a template that are told to people, cut where something is filled in. */
function textsOf(source: string): string[][] {
  const told = source.matchAll(/(?:append \$problems|printf|\$text :=) "([^"\\]{20,})"/g);
  return [...told].map(([, text = ""]) => text.split(/%[sd]/));
}

describe("values that cannot be used", { skip: cannotRunHelm }, () => {
  for (const refusal of malformed) {
    test(`the schema refuses ${refusal.words.join(" ")}`, async () => {
      assert.match(await refusalOf(refusal), refusal.says);
    });
  }

  test("each is refused with its remedy, and no check is without a row here", async () => {
    const said: string[] = [];
    for (const refusal of refusals) {
      const errors = await refusalOf(refusal);
      assert.match(errors, refusal.says, refusal.words.join(" "));
      said.push(errors);
    }
    const texts = textsOf(await readFile(join(chartFolder, "templates/validate.tpl"), "utf8"));
    assert.ok(texts.length > 20, "texts are found");
    const lines = said.flatMap((errors) => errors.split("\n"));
    const unsaid = texts.filter((pieces) => !lines.some((line) => pieces.every((piece) => line.includes(piece))));
    assert.deepEqual(unsaid, []);
  });
});
