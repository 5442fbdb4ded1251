import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repository } from "../../tools/checks/run.ts";
import { encodeGolden, goldenBatches, goldenJson } from "./golden-events.ts";
import { withTables } from "./tables.ts";

// Writes the golden messages and the tables of the README anew; the diff is the review.
const folder = join(repository, "proto/usage");
const golden = join(folder, "golden");
rmSync(golden, { recursive: true, force: true });
mkdirSync(golden);
for (const batch of goldenBatches) {
  writeFileSync(join(golden, `${batch.name}.bin`), encodeGolden(batch));
  writeFileSync(join(golden, `${batch.name}.json`), goldenJson(batch));
}
const readme = join(folder, "README.md");
const contract = readFileSync(join(folder, "v1/usage.proto"), "utf8");
writeFileSync(readme, withTables(readFileSync(readme, "utf8"), contract));
