import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { callers, fieldVerdicts, renderVerdicts } from "../testing/field-verdicts.ts";
import { dialectsFolder } from "../testing/matrix.ts";
import { unsaidFields } from "../testing/unsaid-fields.ts";

const names = Object.keys(callers) as (keyof typeof callers)[];
const used = new Set<RegExp>();

for (const name of names) {
  const verdicts = fieldVerdicts(name);

  test(`every field of ${name} is carried, named as dropped or refused by name`, () => {
    assert.ok(verdicts.length > 500, "the types have fields");
    const lost = verdicts.filter(({ path, verdict }) => {
      if (verdict !== "silent") return false;
      const reasons = unsaidFields.filter(([pattern]) => pattern.test(`${name} ${path}`));
      for (const [pattern] of reasons) used.add(pattern);
      return reasons.length === 0;
    });
    const shown = lost.map(({ path, provider }) => `${path} → ${provider}`);
    assert.deepEqual(shown, [], "carry it, name it, or say in testing/unsaid-fields.ts why nothing is lost");
  });

  test(`fields of ${name} land where their golden file says (npm run generate writes it anew)`, () => {
    const file = join(dialectsFolder, "golden/fields", `${name}.txt`);
    assert.equal(renderVerdicts(verdicts), readFileSync(file, "utf8"));
  });
}

test("every reason is some field's", () => {
  const idle = unsaidFields.filter(([pattern]) => !used.has(pattern)).map(([, why]) => why);
  assert.deepEqual(idle, []);
});
