import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { findProgram } from "#shared/testing/binaries.ts";
import { alertRules } from "../observability/written.ts";
import { cannotRunHelm, chartFolder, helmHelp, template } from "../test/chart/helm.ts";
import { valueAt } from "../test/chart/values-file.ts";
import { runAgainst } from "../tools/admin/testing/stub-services.ts";
import { backupVariables } from "../tools/backup/config.ts";
import { declaredServices } from "../tools/checks/readme-tables.ts";
import { variables as migrateVariables } from "../tools/migrate/config.ts";
import { repository, run } from "../tools/checks/run.ts";

const paths = globSync(
  ["deploy/operations/*.md", "deploy/tools/backup/README.md", "deploy/observability/runbooks/*.md"],
  {
    cwd: repository,
  },
).toSorted();
const pages = paths.map((path) => ({ path, text: readFileSync(join(repository, path), "utf8") }));

const blocks = pages.flatMap(({ path, text }) =>
  [...text.matchAll(/^```sh\n([^]*?)^```/gm)].map(([, block = ""]) => ({ path, block })),
);
const programs = /^(?:[A-Z_]+=\S+ )*(admin|operator|kubectl|helm|npm run) /;

/** Commands of the pages' blocks and of their sentences, each in one line, without what their output goes to. */
const commands = [
  ...blocks.flatMap(({ path, block }) =>
    block
      .replaceAll(/\\\n\s*/g, "")
      .split("\n")
      .map((line) => ({ path, line })),
  ),
  ...pages.flatMap(({ path, text }) =>
    [...text.replaceAll(/^```[^]*?^```/gm, "").matchAll(/`([^`]+)`/g)].map(([, line = ""]) => ({ path, line })),
  ),
]
  .filter(({ line }) => programs.test(line))
  .map(({ path, line }) => ({
    path,
    line: line
      .replace(/\s*(?:[|>&;]|#\s).*$/, "")
      .replaceAll(/\s+/g, " ")
      .trim(),
  }));

const of = (program: string): { path: string; words: string[] }[] =>
  commands.flatMap(({ path, line }) => {
    const words = line.split(" ").filter((word) => !/^[A-Z_]+=/.test(word));
    const name = program.split(" ");
    return name.every((part, index) => words[index] === part) ? [{ path, words: words.slice(name.length) }] : [];
  });

/** Flags of a command, long ones and short ones. */
const flagsOf = (words: readonly string[]): string[] =>
  words.flatMap((word) => /^(--?[a-z][a-z-]*)(?:=|$)/.exec(word)?.[1] ?? []);

/** Words that say what is done: `rollout status`. */
const partsOf = (words: readonly string[]): string[] => {
  const rest = words[0] === "-n" ? words.slice(2) : [...words];
  const isNested = ["rollout", "create", "top", "get"].includes(rest[0] ?? "");
  return rest.slice(0, isNested ? 2 : 1);
};

/** Flags that a help text has not. */
const missingIn = (help: string, flags: readonly string[]): string[] =>
  flags.filter((flag) => !new RegExp(`(?<![\\w-])${flag}(?![\\w-])`).test(help));

describe("the commands of the pages for operators", () => {
  it("are found", () => {
    assert.ok(commands.length > 100, `found only ${commands.length}`);
    for (const program of ["admin", "kubectl", "helm", "npm run"]) assert.ok(of(program).length > 4, program);
  });

  it("are shell that can be read", async () => {
    for (const { path, block } of blocks) {
      const { code, errors } = await run("sh", ["-n", "-c", block], repository);
      assert.equal(code, 0, `${path}: ${errors}`);
    }
  });

  it("name scripts of package.json", () => {
    const { scripts } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8")) as { scripts: object };
    for (const { path, words } of of("npm run")) {
      assert.ok(Object.hasOwn(scripts, words[0] ?? ""), `${path}: npm run ${words[0]}`);
    }
  });

  it("give the operator's tool words that it takes", async () => {
    const given = new Map([
      ["USD", "1.5"],
      ["-USD", "-1.5"],
      ["DAY", "2026-11-20"],
      ["N", "2"],
      ["SHARD", "2"],
      ["TODAY", "2026-11-20"],
      ["VERSION", "7"],
      ["BASE", "7"],
    ]);
    const all = [...of("admin"), ...of("operator"), ...of("npm run admin --")];
    const asked = all.filter(({ words }) => !words.includes("…"));
    assert.ok(asked.length > 20, `found only ${asked.length}`);
    for (const text of new Set(asked.map(({ words }) => words.join(" ")))) {
      // They need stores, and say so.
      const { aside } = await runAgainst({}, ...text.split(" ").map((word) => given.get(word) ?? word));
      assert.doesNotMatch(aside, /unknown|missing|not specified|invalid|too many/, text);
    }
  });

  const hasKubectl = findProgram("kubectl") !== undefined;
  it("give kubectl flags that it has", { skip: hasKubectl ? false : "there is no kubectl" }, async () => {
    const { output: options } = await run("kubectl", ["options"], repository);
    const helps = new Map<string, string>();
    for (const { path, words } of of("kubectl")) {
      // What follows is for the program in the pod.
      const own = words.includes("--") ? words.slice(0, words.indexOf("--")) : words;
      const parts = partsOf(own);
      const name = parts.join(" ");
      if (!helps.has(name)) {
        const { code, output } = await run("kubectl", [...parts, "--help"], repository);
        assert.equal(code, 0, `${path}: kubectl ${name}`);
        helps.set(name, output);
      }
      assert.deepEqual(
        missingIn(`${helps.get(name)}${options}`, flagsOf(own)),
        [],
        `${path}: kubectl ${own.join(" ")}`,
      );
    }
  });

  it("give helm flags that it has, and values that the chart renders", { skip: cannotRunHelm }, async () => {
    // A plugin, and the command that the page says it needs.
    const asked = of("helm").filter(({ words }) => !words.includes("diff"));
    for (const { path, words } of asked) {
      const help = await helmHelp(partsOf(words));
      assert.deepEqual(missingIn(help, flagsOf(words)), [], `${path}: helm ${words.join(" ")}`);
      const sets = words.flatMap((word, index) => (words[index - 1] === "--set" ? [word] : []));
      if (sets.length === 0) continue;
      const needed = sets.some((set) => set.startsWith("restore.")) ? ["backup.volume.emptyDir.sizeLimit=1Gi"] : [];
      const rendered = await template(join(chartFolder, "ci/minimal-values.yaml"), [...needed, ...sets]);
      assert.equal(rendered.code, 0, `${path}: ${rendered.errors}`);
    }
  });
});

describe("names on the pages for operators", () => {
  const named = (pattern: RegExp): { path: string; name: string }[] =>
    pages
      .filter(({ path }) => !path.includes("/runbooks/"))
      .flatMap(({ path, text }) => [...text.matchAll(pattern)].map(([, name = ""]) => ({ path, name })));

  it("are alerts that there are", () => {
    const alerts = new Set(alertRules().map(({ alert }) => alert));
    const found = named(/`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`/g);
    assert.ok(found.length > 4, `found only ${found.length}`);
    assert.deepEqual(
      found.filter(({ name }) => !alerts.has(name)),
      [],
    );
  });

  it("are variables that there are", async () => {
    const declared = [
      ...(await declaredServices()).map(({ variables }) => variables),
      migrateVariables,
      backupVariables,
    ];
    const known = new Set(declared.flatMap(({ properties }) => Object.keys(properties)));
    // Of the image's build, of nats-server, and of redis-cli.
    const others = new Set(["POSTGRES_IMAGE", "REDISCLI_AUTH"]);
    const found = named(/`([A-Z]+(?:_[A-Z]+)+)`/g);
    assert.ok(found.length > 4, `found only ${found.length}`);
    assert.deepEqual(
      found.filter(({ name }) => !known.has(name) && !others.has(name)),
      [],
    );
  });

  it("are values of the chart that there are", () => {
    const values: unknown = parse(readFileSync(join(chartFolder, "values.yaml"), "utf8"));
    const tops = Object.keys(values as object).join("|");
    const found = named(new RegExp(`\`((?:${tops})(?:\\.(?!ts\`|yaml\`)[A-Za-z]+)+)\``, "g"));
    assert.ok(found.length > 4, `found only ${found.length}`);
    assert.deepEqual(
      found.filter(({ name }) => valueAt(values, name) === undefined),
      [],
    );
  });
});
