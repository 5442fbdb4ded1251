import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { callers, fieldVerdicts, renderVerdicts } from "../../../services/relay/testing/field-verdicts.ts";
import { dialectsFolder, goldenText, matrixCells } from "../../../services/relay/testing/matrix.ts";

// Writes every golden file anew; the diff is the review.
const folder = join(dialectsFolder, "golden");
rmSync(folder, { recursive: true, force: true });
for (const { file, result } of matrixCells()) {
  const path = join(folder, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, goldenText(result));
}

mkdirSync(join(folder, "fields"));
for (const name of Object.keys(callers) as (keyof typeof callers)[]) {
  writeFileSync(join(folder, "fields", `${name}.txt`), renderVerdicts(fieldVerdicts(name)));
}
