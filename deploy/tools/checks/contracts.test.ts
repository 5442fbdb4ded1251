import assert from "node:assert/strict";
import { cp, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { contractProblems } from "./contracts.ts";
import { repository } from "./run.ts";

const usage = "usage/v1/usage.proto";

/** Checks a copy of proto/ in which one file was changed. */
async function problemsAfter(path: string, change: (text: string) => string): Promise<string[]> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "contracts-test-"));
  await cp(join(repository, "proto"), folder.path, { recursive: true });
  const before = await readFile(join(folder.path, path), "utf8");
  const after = change(before);
  assert.notEqual(after, before, `the change of ${path} must find what it changes`);
  await writeFile(join(folder.path, path), after);
  return await contractProblems(folder.path);
}

test("the contracts are well formed, keep what was released, and gen/ is current", async () => {
  assert.deepEqual(await contractProblems(join(repository, "proto")), []);
});

test("a deleted field is refused as a breaking change", async () => {
  const withoutTools = (text: string): string => text.replace(/ *\/\/ Calls of tools.*\n.*tool_calls = 14;\n/, "");
  const problems = await problemsAfter(usage, withoutTools);
  assert.match(problems.join("\n"), /buf breaking[^]*field "14" with name "tool_calls"[^]*deleted/);
});

test("a renumbered field is refused as a breaking change", async () => {
  const problems = await problemsAfter(usage, (text) => text.replace("tool_calls = 14;", "tool_calls = 500;"));
  assert.match(problems.join("\n"), /buf breaking/);
});

test("an enum moved to another file of its package is refused: generated code would no longer be found", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "contracts-test-"));
  await cp(join(repository, "proto"), folder.path, { recursive: true });
  const text = await readFile(join(folder.path, usage), "utf8");
  const from = text.indexOf("// Where the counts of an event come from.");
  const head = 'syntax = "proto3";\n\n// Sources of counts.\npackage usage.v1;\n\n';
  await writeFile(join(folder.path, "usage/v1/source.proto"), `${head}${text.slice(from)}`);
  const withImport = 'import "google/protobuf/timestamp.proto";\nimport "usage/v1/source.proto";';
  const rest = text.slice(0, from).trimEnd().replace('import "google/protobuf/timestamp.proto";', withImport);
  await writeFile(join(folder.path, usage), `${rest}\n`);
  const [breaking = ""] = await contractProblems(folder.path);
  assert.match(breaking, /^buf breaking[^]*enum "UsageSource" was deleted from file/i);
});

test("a new field is no breaking change, but gen/ has to follow", async () => {
  const withField = "  int64 requests = 15;\n  // Something new.\n  int64 something_new = 500;\n";
  const problems = await problemsAfter(usage, (text) => text.replace("  int64 requests = 15;\n", withField));
  assert.equal(problems.length, 1);
  assert.match(problems.join("\n"), /npm run generate`:\nproto\/gen\/usage\/v1\/usage_pb\.ts$/);
});

test("a part without a comment and a line out of format are named", async () => {
  const problems = await problemsAfter(usage, (text) => text.replace("  // Images made.\n", "  \n"));
  assert.deepEqual(
    problems.map((problem) => problem.split(":")[0]),
    ["buf lint", "buf format -d --exit-code", "not what the contracts generate; run `npm run generate`"],
  );
});

test("a generated file changed by hand is named", async () => {
  const problems = await problemsAfter("gen/usage/v1/usage_pb.ts", (text) => `${text}// by hand\n`);
  assert.match(problems.join("\n"), /proto\/gen\/usage\/v1\/usage_pb\.ts$/);
});
