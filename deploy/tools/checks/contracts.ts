import { mkdtempDisposable, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repository, run } from "./run.ts";

type Step = { words: string[]; hint: string };

const steps: Step[] = [
  { words: ["lint"], hint: "Follow buf's advice; every part of a contract carries a comment." },
  { words: ["format", "-d", "--exit-code"], hint: "Run `npx buf format -w` in proto/." },
  {
    words: ["breaking", "--against", "released.binpb"],
    hint: "Add instead of changing: consumers run older contracts. A new major version is a new package (v2).",
  },
];

/** Files below a folder by path, with their text. */
async function textsBelow(folder: string): Promise<Map<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const texts = await Promise.all(paths.map((path) => readFile(path, "utf8")));
  return new Map(paths.map((path, index) => [path.slice(folder.length + 1), texts[index] ?? ""]));
}

/** Names the generated files that are missing, left over or different from what the contracts give now. */
async function staleFiles(proto: string): Promise<string[]> {
  await using fresh = await mkdtempDisposable(join(tmpdir(), "contracts-"));
  const generated = await run("buf", ["generate", "--output", fresh.path], proto);
  if (generated.code !== 0) return [`buf generate:\n${generated.errors}`];
  const wanted = await textsBelow(join(fresh.path, "gen"));
  const committed = await textsBelow(join(proto, "gen"));
  const paths = new Set([...wanted.keys(), ...committed.keys()]);
  return [...paths].filter((path) => wanted.get(path) !== committed.get(path)).map((path) => `proto/gen/${path}`);
}

/**
 * Checks a folder of contracts: lint, format, compatibility with the released image beside them, and that gen/ is
 * what they generate. Gives one text per problem; none means fine.
 */
export async function contractProblems(proto: string): Promise<string[]> {
  const problems: string[] = [];
  for (const { words, hint } of steps) {
    const finished = await run("buf", words, proto);
    if (finished.code === 0) continue;
    problems.push(`buf ${words.join(" ")}:\n${finished.output}${finished.errors}${hint}`);
  }
  const stale = await staleFiles(proto);
  if (stale.length > 0)
    problems.push(`not what the contracts generate; run \`npm run generate\`:\n${stale.join("\n")}`);
  return problems;
}

if (import.meta.main) {
  const problems = await contractProblems(join(repository, "proto"));
  for (const problem of problems) process.stderr.write(`${problem}\n\n`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
