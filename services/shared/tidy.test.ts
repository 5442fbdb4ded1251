import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, it } from "node:test";

const repository = join(import.meta.dirname, "../..");

type File = { path: string; text: string };
/** Names what is wrong with a file and how to put it right; each text begins with the line, where there is one. */
type Rule = (file: File) => string[];

/** The file's lines that match, told with the remedy. */
function linesLike(pattern: RegExp, text: string, remedy: (found: string) => string): string[] {
  return text.split("\n").flatMap((line, index) => {
    const found = pattern.exec(line);
    return found ? [`line ${index + 1}: ${remedy(found[0])}`] : [];
  });
}

/** The source with comments and texts blanked out, line by line as it was. */
function codeOnly({ path, text }: File): string {
  const script = /\/\/.*|\/\*[^]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/g;
  const lua = /--.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g;
  return text.replace(path.endsWith(".lua") ? lua : script, (piece) => piece.replace(/[^\n]/g, " "));
}

const betterNames: Record<string, string> = {
  req: "request",
  res: "response",
  ctx: "the name of the thing that it carries",
  cfg: "config",
  opts: "options",
  msg: "message",
  tmp: "the name of the thing that it holds",
};

const noShortNames: Rule = (file) => {
  // wire.ts spells names as the vendor does.
  if (!/\.(ts|mjs|lua)$/.test(file.path) || basename(file.path) === "wire.ts") return [];
  // What follows a single dot is another's name: a package's property or method.
  const short = new RegExp(`(?<![\\w$]|[^.]\\.)(${Object.keys(betterNames).join("|")})(?![\\w$])`);
  return linesLike(short, codeOnly(file), (name) => `call it ${betterNames[name]} instead of ${name}`);
};

const noVagueFiles: Rule = ({ path }) => {
  if (["services/relay/dialects/index.ts", "services/video-task/providers/index.ts"].includes(path)) return [];
  const vague = /(^|\/)(utils?|helpers?|common|misc|index)(\.(test\.)?(ts|mjs)$|\/)/.exec(path);
  return vague
    ? [`name the file after the one thing it does instead of ${vague[2]}; import from where a thing is`]
    : [];
};

const oneTitle: Rule = ({ path, text }) => {
  if (basename(path) !== "README.md") return [];
  const titles = text.replace(/^```[^]*?^```/gm, "").match(/^# /gm)?.length ?? 0;
  return titles === 1 ? [] : [`write one "# " heading; it has ${titles}`];
};

const nothingUnfinished: Rule = ({ text }) => {
  // Put together, so that this file does not find itself.
  const marks = new RegExp(`\\b(${["FIX" + "ME", "TO" + "DO", "X".repeat(3)].join("|")})\\b`);
  return linesLike(marks, text, (mark) => `do it now or say in the README that it is not done, without ${mark}`);
};

const noLongLines: Rule = ({ path, text }) => {
  if (!path.endsWith(".ts")) return [];
  // The title of a test quotes the rule that it proves, and strings are not broken.
  const elsewhere = '^(import|export) .* from "|https?://';
  const inTests = `${elsewhere}|([\u0022\u0027\u0060])(?:(?!\\2).){50,}\\2`;
  const mayBeLong = new RegExp(path.endsWith(".test.ts") ? inTests : elsewhere);
  return text.split("\n").flatMap((line, index) => {
    const isLong = line.length > 120 && !mayBeLong.test(line);
    return isLong ? [`line ${index + 1}: break it, 120 characters are the most; it has ${line.length}`] : [];
  });
};

const noPlacesOfOneMachine: Rule = ({ text }) => {
  const place = new RegExp(`(?<![\\w.@:/-])/(${["work", "root", "home"].join("|")})/[\\w.-]*`);
  return linesLike(place, text, (found) => `use a path relative to the repository instead of ${found}`);
};

const noSleepingTests: Rule = (file) => {
  if (!file.path.endsWith(".test.ts")) return [];
  const asleep = /(?<![\w$.])sleep(?![\w$])|await new Promise.*setTimeout\(|await setTimeout\(/;
  return linesLike(
    asleep,
    codeOnly(file),
    () => "await the event, or until() of testing/until.ts, instead of sleeping",
  );
};

const rules: Record<string, Rule> = {
  "names are whole words": noShortNames,
  "a file is named after what it does, and nothing is imported through an index": noVagueFiles,
  "a README has one title": oneTitle,
  "nothing is left unfinished": nothingUnfinished,
  "a line of code has at most 120 characters, imports and addresses apart": noLongLines,
  "no path of one person's machine": noPlacesOfOneMachine,
  "tests do not sleep": noSleepingTests,
};

/** The files that people write here; generated, installed and ignored ones are not among them. */
function writtenFiles(): File[] {
  const paths = globSync("**/*.{ts,mjs,md,sql,lua,sh}", {
    cwd: repository,
    exclude: (path) => ["node_modules", ".local", ".git", "gen"].includes(basename(path)),
  });
  return paths.toSorted().map((path) => ({ path, text: readFileSync(join(repository, path), "utf8") }));
}

const files = writtenFiles();

describe("house rules that lint cannot hold", () => {
  for (const [says, rule] of Object.entries(rules)) {
    it(says, () => {
      const problems = files.flatMap((file) => rule(file).map((problem) => `${file.path}: ${problem}`));
      assert.deepEqual(problems, []);
    });
  }

  const services = [...new Set(files.map(({ path }) => /^services\/[^/]+(?=\/)/.exec(path)?.[0] ?? ""))].filter(
    Boolean,
  );

  it("every service has the same four files to start reading at", () => {
    const wanted = services
      .filter((folder) => folder !== "services/shared" && folder !== "services/fake-provider")
      .flatMap((folder) => ["main.ts", "config.ts", "app.ts", "README.md"].map((name) => `${folder}/${name}`));
    assert.deepEqual(
      wanted.filter((path) => !existsSync(join(repository, path))),
      [],
    );
  });

  it("shared and deploy have a README too", () => {
    for (const path of ["services/shared/README.md", "deploy/README.md", "README.md"]) {
      assert.ok(existsSync(join(repository, path)), `write ${path}`);
    }
  });
});

describe("every house rule is seen to fire, and leaves alone what is right", () => {
  const file = (path: string, text = ""): File => ({ path, text });
  const wrong: [Rule, File][] = [
    ...Object.keys(betterNames).map((name): [Rule, File] => [noShortNames, file("a.ts", `const ${name} = 1;`)]),
    [noShortNames, file("a.ts", "const all = [...res];")],
    [noShortNames, file("a.lua", "local res = 1 -- two")],
    [noVagueFiles, file("services/relay/utils.ts")],
    [noVagueFiles, file("services/relay/helpers/sum.ts")],
    [noVagueFiles, file("services/relay/common.test.ts")],
    [noVagueFiles, file("services/relay/routes/index.ts")],
    [oneTitle, file("services/relay/README.md", "# a\n\n# b\n")],
    [oneTitle, file("deploy/README.md", "no title\n")],
    [nothingUnfinished, file("a.md", `a ${"TO" + "DO"}: later`)],
    [nothingUnfinished, file("a.sql", `-- ${"FIX" + "ME"}`)],
    [noLongLines, file("a.ts", `const a = "${"a".repeat(120)}";`)],
    [noPlacesOfOneMachine, file("a.md", ["see ", "root", "x"].join("/"))],
    [noPlacesOfOneMachine, file("a.ts", ['const a = "', "work", "main"].join("/"))],
    [noSleepingTests, file("a.test.ts", "await sleep(100);")],
    [noSleepingTests, file("a.test.ts", "await new Promise((resolve) => setTimeout(resolve, 100));")],
  ];
  for (const [rule, example] of wrong) {
    it(`${example.path} ${example.text.slice(0, 40).replaceAll("\n", " ")}`, () => {
      assert.equal(rule(example).length, 1);
    });
  }

  it("texts, comments, longer names, vendor's spellings, dialects/index.ts, imports and addresses are fine", () => {
    const right: [Rule, File][] = [
      [noShortNames, file("a.ts", 'const message = "msg"; // req\nconst { resolve } = Promise; /* tmp */')],
      [noShortNames, file("a.ts", "const text = line.msg ?? line?.msg ?? program.opts();")],
      [noShortNames, file("a/wire.ts", "type Event = { msg: string };")],
      [noVagueFiles, file("services/relay/dialects/index.ts")],
      [noVagueFiles, file("services/relay/index-of-models.ts")],
      [oneTitle, file("services/relay/README.md", "# a\n\n```sh\n# not a title\n```\n")],
      [noLongLines, file("a.ts", `import { a } from "${"a".repeat(120)}";`)],
      [noLongLines, file("a.ts", `// https://example.org/${"a".repeat(120)}`)],
      [noPlacesOfOneMachine, file("a.ts", ["https://example.org", "home", "x"].join("/"))],
      [noSleepingTests, file("a.test.ts", "const timer = setTimeout(() => cut(), 100);")],
    ];
    for (const [rule, example] of right) assert.deepEqual(rule(example), [], `${example.path}: ${example.text}`);
  });
});
