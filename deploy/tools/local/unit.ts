import { globSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join, normalize } from "node:path";
import { repository } from "../checks/run.ts";
import { show } from "./machine.ts";
import { batchEntry } from "./test-runs.ts";

// What `npm run test:unit` runs: every test that starts no other program, found by what it imports, so that there is no
// list to keep. The recordings and the simulation have commands of their own.

// Each file is a suite there: a hook of one must not be one of all others.
const runner = ["--test-timeout=60000", batchEntry];

const starters = /\bfrom "(?:node:child_process|playwright(?:-core)?)"/;
const imported = /^(?:import|export)\s+(?!type\b)(?:[^";]*?\bfrom )?"([^"]+)"/gm;
const folders: Record<string, string> = {
  "#shared/": "services/shared/",
  "#fake-provider/": "services/fake-provider/",
};

function targetOf(importer: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return normalize(join(dirname(importer), specifier));
  for (const [alias, folder] of Object.entries(folders)) {
    if (specifier.startsWith(alias)) return folder + specifier.slice(alias.length);
  }
  return undefined;
}

/** Tests, of these files with their texts, from which no import leads to one that starts a program. */
export function unitTests(texts: ReadonlyMap<string, string>): string[] {
  const importers = new Map<string, string[]>();
  for (const [path, text] of texts) {
    for (const [, specifier = ""] of text.matchAll(imported)) {
      const target = targetOf(path, specifier);
      if (target !== undefined) importers.set(target, [...(importers.get(target) ?? []), path]);
    }
  }
  const starting = new Set([...texts].filter(([, text]) => starters.test(text)).map(([path]) => path));
  for (const path of starting) for (const importer of importers.get(path) ?? []) starting.add(importer);
  return [...texts.keys()].filter((path) => path.endsWith(".test.ts") && !starting.has(path));
}

if (import.meta.main) {
  process.chdir(repository);
  const paths = globSync(["services/**/*.ts", "deploy/**/*.ts"], {
    exclude: ["deploy/test/recordings/**", "deploy/test/simulation/**"],
  });
  const tests = unitTests(new Map(paths.map((path) => [path, readFileSync(path, "utf8")])));
  // To start one process for each file takes longer than most of them; but tests wait for a third of their time.
  const shards = 2 * availableParallelism();
  const own = (shard: number): string[] =>
    tests.filter((_, index) => index % shards === shard).map((path) => join(repository, path));
  const codes = await Promise.all(
    Array.from({ length: shards }, (_, shard) =>
      show(process.execPath, [...runner, ...own(shard)], {
        environment: process.env,
        output: 1,
      }),
    ),
  );
  process.exitCode = Math.max(...codes);
}
