import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { rooms, wrongArrows, type SourceFile } from "./rooms.ts";
import { repository } from "./run.ts";

const read = (path: string): SourceFile => ({ path, text: readFileSync(join(repository, path), "utf8") });

test("no import goes from a lower room to a higher one", () => {
  const files = globSync("services/**/*.ts", { cwd: repository, exclude: ["**/node_modules/**"] }).map(read);
  assert.ok(files.length > 500);
  assert.deepEqual([...new Set(wrongArrows(files))], []);
});

test("every room that is listed is there", () => {
  const listed = Object.entries(rooms).flatMap(([service, names]) => names.map((name) => `${service}/${name}`));
  assert.deepEqual(
    listed.filter((path) => globSync(path, { cwd: repository }).length === 0),
    [],
  );
});

test("an import that goes up is found, and a room that no list names", () => {
  const services = { "services/a": ["main.ts", "handlers", "store"] };
  const found = (path: string, text: string): string[] => wrongArrows([{ path, text }], services);
  assert.deepEqual(found("services/a/handlers/x.ts", 'import { y } from "../store/y.ts";'), []);
  assert.deepEqual(found("services/a/store/y.ts", 'import {\n  x,\n} from "../handlers/x.ts";'), [
    "services/a/store/y.ts -> services/a/handlers/x.ts",
  ]);
  assert.deepEqual(found("services/a/store/y.ts", 'export { x } from "../handlers/x.ts";').length, 1);
  assert.deepEqual(found("services/a/store/y.test.ts", 'import { x } from "../handlers/x.ts";'), []);
  assert.deepEqual(found("services/a/cellar/z.ts", ""), ["services/a/cellar stands in no list of rooms"]);
});
