import assert from "node:assert/strict";
import { cp, mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, it, test } from "node:test";
import { repository, run } from "./run.ts";

type Row = { says: string; rule: string; path: string; source: string };

const row = (rule: string, path: string, source: string, says = `${rule} fires in ${path}`): Row => ({
  says,
  rule,
  path,
  source: source.endsWith("\n") ? source : `${source}\n`,
});

const importOf = (specifier: string): string => `import { thing } from "${specifier}";\nexport const kept = thing;`;
const typeImportOf = (specifier: string): string =>
  `import type { Thing } from "${specifier}";\nexport type K = Thing;`;
const longFunction = `export function long(): number {\n  let sum = 0;\n${"  sum += 1;\n".repeat(70)}  return sum;\n}`;
const tooDeep = `export function deep(n: number): void {\n${"while (n > 1) {\n".repeat(4)}n -= 1;\n${"}\n".repeat(4)}}`;
const tooEarly = `const go = async (): Promise<void> => {};
export async function kept(): Promise<void> {
  await using _lock = { [Symbol.asyncDispose]: go };
  return go();
}`;
const fiveParameters = "export const many = (a: 1, b: 1, c: 1, d: 1, e: 1): number[] => [a, b, c, d, e];";
const rooms = "eslint(no-restricted-imports)";

const refused: Row[] = [
  row("typescript(no-floating-promises)", "services/relay/f1.ts", "const go = async () => {};\ngo();"),
  row("typescript(no-misused-promises)", "services/relay/f2.ts", "[1].forEach(async () => {});"),
  row("typescript(no-misused-spread)", "services/relay/f21.ts", "export const all = { ...new Map([[1, 2]]) };"),
  row("typescript(only-throw-error)", "services/relay/f3.ts", 'export function fail(): never {\n  throw "text";\n}'),
  row(
    "typescript(return-await)",
    "services/relay/f20.ts",
    tooEarly,
    "a promise is awaited before what it needs is disposed",
  ),
  row(
    "typescript(switch-exhaustiveness-check)",
    "services/relay/f4.ts",
    'export function f(word: "a" | "b"): void {\n  switch (word) {\n    case "a":\n      return;\n  }\n}',
  ),
  row(
    "import(no-cycle)",
    "services/billing/cycle-a.ts",
    'import { b } from "./cycle-b.ts";\nexport const a = (): unknown => b;',
  ),
  row(
    "import(no-cycle)",
    "services/billing/cycle-b.ts",
    'import { a } from "./cycle-a.ts";\nexport const b = (): unknown => a;',
  ),
  row(
    "import(no-cycle)",
    "services/shared/cycle-c.ts",
    'import type { D } from "#shared/cycle-d.ts";\nexport type C = D[];',
    "cycles are followed through # imports and types",
  ),
  row("import(no-cycle)", "services/shared/cycle-d.ts", 'import type { C } from "./cycle-c.ts";\nexport type D = C[];'),
  row(
    "eslint(max-lines)",
    "services/relay/f5.ts",
    Array.from({ length: 401 }, (_, n) => `export const n${n} = 1;`).join("\n"),
  ),
  row("eslint(max-lines-per-function)", "services/relay/f6.ts", longFunction),
  row("eslint(max-params)", "services/relay/f7.ts", fiveParameters),
  row("eslint(max-depth)", "services/relay/f8.ts", tooDeep),
  row("import(no-default-export)", "services/relay/f9.ts", "export default 1;"),
  row("eslint(no-console)", "services/relay/f10.ts", 'console.log("text");'),
  row(
    "typescript(consistent-type-imports)",
    "services/relay/f11.ts",
    'import { Row } from "./rows.ts";\nexport type K = Row;',
  ),
  row("typescript(no-explicit-any)", "services/relay/f12.ts", "export const a = (value: any): unknown => value;"),
  row("eslint(no-unused-vars)", "services/relay/f13.ts", "const unused = 1;\nexport const used = 2;"),
  row("eslint(eqeqeq)", "services/relay/f14.ts", "export const same = (a: string, b: string): boolean => a == b;"),
  row("eslint(no-var)", "services/relay/f15.ts", "export var old = 1;"),
  row("eslint(prefer-const)", "services/relay/f16.ts", "let fixed = 1;\nexport const kept = fixed;"),
  row("eslint(no-restricted-properties)", "services/relay/f17.ts", 'export const path = process.env["PATH"];'),
  row(
    "eslint(no-restricted-properties)",
    "services/shared/f18.ts",
    "const { env } = process;\nexport const path = env;",
  ),
  row(rooms, "services/billing/f19.ts", 'import { env } from "node:process";\nexport const kept = env;'),

  row(rooms, "services/relay/r1.ts", importOf("../billing/post.ts"), "a service may not import another service"),
  row(rooms, "services/relay/routes/r2.ts", importOf("../../auth-quota/keys.ts"), "nor from a deeper folder"),
  row(rooms, "services/auth-quota/store/r3.ts", importOf("../../billing/post.ts"), "nor from store/"),
  row(rooms, "services/billing/r4.test.ts", importOf("../relay/call.ts"), "nor from a test"),
  row(rooms, "services/relay/r5.ts", importOf("../../deploy/tools/local/stack.ts"), "a service may not import deploy/"),
  row(rooms, "services/shared/r6.ts", importOf("../relay/call.ts"), "services/shared may not import services"),
  row(rooms, "services/shared/testing/r7.ts", importOf("../../billing/post.ts"), "nor may services/shared/testing"),
  row(rooms, "services/billing/r8.ts", importOf("pg"), "only store/ may import pg"),
  row(rooms, "services/billing/r9.ts", importOf("node-pg-migrate"), "only store/ may import node-pg-migrate"),
  row(rooms, "services/auth-quota/r10.ts", importOf("ioredis"), "only store/ may import ioredis"),
  row(rooms, "services/billing/store/r11.ts", importOf("ioredis"), "and only the store/ of auth-quota may"),
  row(rooms, "services/relay/store/r12.ts", importOf("pg"), "the relay has no database, not even in store/"),
  row(rooms, "services/relay/store/r13.ts", importOf("ioredis"), "the relay has no Redis, not even in store/"),
  row(rooms, "services/shared/r14.ts", importOf("pg"), "services/shared knows no database"),
  row(rooms, "services/relay/r15.ts", importOf("@grpc/grpc-js"), "only services/shared may import grpc-js"),
  row(rooms, "services/auth-quota/r16.test.ts", importOf("@grpc/grpc-js"), "not even tests may"),
  row(rooms, "services/relay/dialects/chat/d1.ts", importOf("undici"), "a dialect imports no package"),
  row(rooms, "services/relay/dialects/chat/d2.ts", importOf("node:crypto"), "a dialect imports nothing of Node"),
  row(
    rooms,
    "services/relay/dialects/chat/d3.ts",
    importOf("../messages/wire.ts"),
    "a dialect imports no other dialect",
  ),
  row(rooms, "services/relay/dialects/chat/d4.ts", importOf("../../catalog.ts"), "a dialect imports nothing above"),
  row(
    rooms,
    "services/relay/dialects/chat/d5.ts",
    importOf("#shared/money/pricing.ts"),
    "a dialect takes only types from prices",
  ),
  row(rooms, "services/relay/dialects/chat/d6.ts", importOf("#proto/usage/v1/usage_pb.ts"), "and from contracts"),
  row(
    rooms,
    "services/relay/dialects/chat/d7.ts",
    typeImportOf("#shared/process/log.ts"),
    "and nothing else that is shared",
  ),
  row(rooms, "services/relay/dialects/d8.ts", importOf("../catalog.ts"), "files of dialects/ import nothing above"),
  row(rooms, "services/relay/dialects/d9.test.ts", importOf("../catalog.ts"), "nor do their tests"),
  row(
    rooms,
    "deploy/tools/admin/a1.ts",
    importOf("../../../services/billing/post.ts"),
    "the operator's tool imports no service",
  ),
  row(rooms, "deploy/tools/admin/a2.ts", importOf("pg"), "the operator's tool knows no database"),
];

const accepted: Row[] = [
  row(
    "none",
    "services/relay/ok1.test.ts",
    `import { test } from "node:test";\ntest("x", async () => {});`,
    "node:test needs no await",
  ),
  row(
    "none",
    "services/relay/ok14.ts",
    "export const count = (text: string): number => [...text].length;",
    "characters are counted by spreading",
  ),
  row("none", "services/relay/ok2.test.ts", longFunction, "tests may be long"),
  row("none", "services/relay/main.ts", 'export const path = process.env["PATH"];', "main.ts reads the environment"),
  row(
    "none",
    "services/relay/config.ts",
    'export const path = process.env["PATH"];',
    "config.ts reads the environment",
  ),
  row("none", "deploy/tools/local/ok3.ts", 'export const path = process.env["PATH"];', "deploy/ reads the environment"),
  row("none", "services/billing/store/ok4.ts", importOf("pg"), "store/ imports pg"),
  row("none", "services/auth-quota/store/ok5.ts", importOf("ioredis"), "auth-quota's store/ imports ioredis"),
  row("none", "services/relay/ok6.ts", typeImportOf("@grpc/grpc-js"), "types of grpc-js are free"),
  row("none", "services/shared/ok7.ts", importOf("@grpc/grpc-js"), "services/shared imports grpc-js"),
  row(
    "none",
    "services/relay/dialects/chat/ok8.ts",
    importOf("../sse.ts"),
    "a dialect imports what all dialects share",
  ),
  row("none", "services/relay/dialects/chat/ok9.ts", importOf("./wire.ts"), "a dialect imports its own files"),
  row(
    "none",
    "services/relay/dialects/chat/ok10.ts",
    typeImportOf("#proto/usage/v1/usage_pb.ts"),
    "and types of contracts",
  ),
  row("none", "services/relay/dialects/index.ts", importOf("./chat/wire.ts"), "dialects/index.ts imports the dialects"),
  row("none", "services/relay/dialects/chat/ok11.test.ts", importOf("node:fs"), "tests of dialects may use Node"),
  row("none", "proto/gen/ok12.ts", "export default 1;", "generated code is not looked at"),
  row("none", "services/relay/ok13.ts", importOf("#shared/money/money.ts"), "a service imports what is shared"),
];

type Diagnostic = { code: string; filename: string };

/** Lints a copy of the repository's set-up that holds the rows' files; gives the rules reported per file. */
async function lint(rows: Row[]): Promise<Map<string, Set<string>>> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "lint-rules-"));
  for (const name of [".oxlintrc.json", "tsconfig.json", "package.json"]) {
    await cp(join(repository, name), join(folder.path, name));
  }
  await symlink(join(repository, "node_modules"), join(folder.path, "node_modules"));
  for (const { path, source } of rows) {
    await mkdir(dirname(join(folder.path, path)), { recursive: true });
    await writeFile(join(folder.path, path), source);
  }
  const finished = await run("oxlint", ["--format", "json"], folder.path);
  const { diagnostics } = JSON.parse(finished.output) as { diagnostics: Diagnostic[] };
  const reported = new Map<string, Set<string>>();
  for (const { code, filename } of diagnostics) {
    reported.set(filename, (reported.get(filename) ?? new Set()).add(code));
  }
  return reported;
}

const reported = await lint([...refused, ...accepted]);

describe("every lint rule of the house is seen to fire", () => {
  for (const { says, rule, path } of refused) {
    it(says, () => assert.deepEqual([...(reported.get(path) ?? [])], [rule]));
  }
});

describe("what the rules must leave alone", () => {
  for (const { says, path } of accepted) {
    it(says, () => assert.deepEqual([...(reported.get(path) ?? [])], []));
  }
});

test("no rule stands in .oxlintrc.json without a row here that proves it", async () => {
  const settings = await readFile(join(repository, ".oxlintrc.json"), "utf8");
  const proven = new Set(refused.map(({ rule }) => rule));
  for (const [, plugin, name] of settings.matchAll(/"(eslint|import|typescript)\/([a-z-]+)": (?:"error"|\[)/g)) {
    assert.ok(proven.has(`${plugin}(${name})`), `${plugin}/${name} has no row`);
  }
});
