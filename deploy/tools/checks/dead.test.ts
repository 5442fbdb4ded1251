import assert from "node:assert/strict";
import { cp, mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { repository, run } from "./run.ts";

const files = {
  "services/relay/main.ts": 'import { used } from "./parts.ts";\nimport { pino } from "pino";\npino().info(used);\n',
  "services/relay/parts.ts": "export const used = 1;\nexport const forgotten = 2;\nexport type Forgotten = string;\n",
  "services/relay/orphan.ts": "export const alone = 1;\n",
  "services/relay/parts.test.ts": 'import { used } from "./parts.ts";\nimport "./test-only.ts";\nused.toFixed();\n',
  "services/relay/test-only.ts": "export {};\n",
  "proto/gen/generated.ts": "export const generated = 1;\n",
};

test("knip refuses unused files, exports, types and dependencies, not entries, tests or generated code", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "dead-code-"));
  for (const name of ["knip.json", "tsconfig.json"]) await cp(join(repository, name), join(folder.path, name));
  const manifest = JSON.parse(await readFile(join(repository, "package.json"), "utf8")) as Record<string, unknown>;
  const dependencies = { pino: "*", undici: "*" };
  const small = { type: "module", imports: manifest["imports"], dependencies };
  await writeFile(join(folder.path, "package.json"), JSON.stringify(small));
  await symlink(join(repository, "node_modules"), join(folder.path, "node_modules"));
  for (const [path, source] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, path)), { recursive: true });
    await writeFile(join(folder.path, path), source);
  }

  const finished = await run("knip", ["--no-config-hints", "--reporter", "symbols"], folder.path);

  assert.equal(finished.code, 1);
  const report = finished.output.replaceAll(/[ \t]+/g, " ");
  assert.match(report, /Unused files \(1\)\nservices\/relay\/orphan\.ts/);
  assert.match(report, /Unused dependencies \(1\)\nundici/);
  assert.match(report, /Unused exports \(1\)\nforgotten/);
  assert.match(report, /Unused exported types \(1\)\nForgotten/);
});
