import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { repository } from "./run.ts";

/** Paths of files relative to the repository, with "/" between folders. */
type Paths = readonly string[];

function repositoryFiles(): Paths {
  // Installed, local and hidden files are no part of the product.
  const isForeign = (name: string): boolean => name === "node_modules" || name.startsWith(".") || name.endsWith(".log");
  const entries = globSync("**/*", {
    cwd: repository,
    withFileTypes: true,
    exclude: (entry) => isForeign(entry.name),
  });
  const folder = `${repository}/`;
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length));
}

/** Folders whose README need not list its level, each with the place that does. */
const listedElsewhere = new Set([
  // One page per alert: the generated table of alerts in ../README.md links to each of them.
  "deploy/observability/runbooks",
]);

/** A README is not its own reader's news, and a test stands beside what it tests. */
const isExempt = (name: string): boolean => name === "README.md" || name.endsWith(".test.ts");

/** The files and folders at the level of a folder, the folders with a slash behind. */
function levelOf(folder: string, files: Paths): string[] {
  const below = folder === "." ? "" : `${folder}/`;
  const names = files
    .filter((path) => path.startsWith(below))
    .map((path) => path.slice(below.length).replace(/\/.*/, "/"));
  return [...new Set(names)].filter((name) => !isExempt(name));
}

/** What stands in the first cells of the tables whose first heading is "file" or "folder", without the links. */
function listedNames(readme: string): string[] {
  const tables = readme.matchAll(/^\| (?:file|folder|file or folder) \|.*\n\|[-|: ]+\n((?:\|.*\n?)*)/gm);
  const cells = [...tables].flatMap(([, rows = ""]) => rows.split("\n").map((row) => row.split("|")[1] ?? ""));
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name));
}

/** What a README lists wrongly: names of its level that it misses, and listed paths that are not there. */
function wrongNames(folder: string, readme: string, files: Paths): string[] {
  const listed = listedNames(readme);
  const missing = levelOf(folder, files).filter((name) => !listed.includes(name));
  const gone = listed.filter((name) => {
    const path = join(folder, name);
    return !files.some((file) => (name.endsWith("/") ? file.startsWith(path) : file === path));
  });
  return [...missing.map((name) => `misses ${name}`), ...gone.map((name) => `lists ${name}, which is not there`)];
}

const withoutCode = (page: string): string => page.replace(/^```[^]*?^```/gm, "");

/** The name of a heading in links, as GitHub makes it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");

const anchorsOf = (page: string): string[] =>
  [...withoutCode(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));

/** Links of a page to files, folders and headings of the repository that are not there. */
function brokenLinks(path: string, read: (path: string) => string, paths: Paths): string[] {
  const links = [...withoutCode(read(path)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
  return links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false;
    const [file = "", anchor] = link.split("#");
    const target = file === "" ? path : join(dirname(path), file).replace(/\/$/, "");
    if (!paths.some((known) => known === target || known.startsWith(`${target}/`))) return true;
    return anchor !== undefined && !anchorsOf(read(target)).includes(anchor);
  });
}

const files = repositoryFiles();
const readPage = (path: string): string => readFileSync(join(repository, path), "utf8");
const folders = files.filter((path) => basename(path) === "README.md").map((path) => dirname(path));

test("there are READMEs to check", () => assert.ok(folders.length > 10));

for (const folder of folders.filter((path) => !listedElsewhere.has(path))) {
  test(`the README of ${folder} lists the files and folders of its level`, () => {
    assert.deepEqual(wrongNames(folder, readPage(join(folder, "README.md")), files), []);
  });
}

test("every service has a README", () => {
  const services = levelOf("services", files).filter((name) => name.endsWith("/"));
  const without = services.filter((name) => !files.includes(`services/${name}README.md`));
  assert.deepEqual(without, []);
});

test("links of READMEs and runbooks lead to what is there", () => {
  const pages = files.filter((path) => path.endsWith(".md"));
  const broken = pages.flatMap((path) => brokenLinks(path, readPage, files).map((link) => `${path}: ${link}`));
  assert.deepEqual(broken, []);
});

test("a missing file, a missing folder and a name that is gone are found", () => {
  const there = ["a/README.md", "a/x.ts", "a/x.test.ts", "a/room/y.ts", "b/z.ts"];
  const table = (...rows: string[]): string => ["| file or folder | what |", "|---|---|", ...rows, ""].join("\n");
  const complete = table("| [`x.ts`](x.ts) | it |", "| `room/`, `room/y.ts` | more |");
  assert.deepEqual(wrongNames("a", complete, there), []);
  assert.deepEqual(wrongNames("a", "`x.ts` and `room/`, but in no table", there), ["misses x.ts", "misses room/"]);
  assert.deepEqual(wrongNames("a", table("| `x.ts` | `room/` |"), there), ["misses room/"]);
  assert.deepEqual(wrongNames("a", `${complete}| \`gone.ts\` | it was |\n`, there), [
    "lists gone.ts, which is not there",
  ]);
  assert.deepEqual(wrongNames(".", table("| `a/` | one |"), there), ["misses b/"]);
});

test("a link to a file or heading that is gone is found", () => {
  const pages: Record<string, string> = {
    "a/README.md": [
      "# Title",
      "## The `path` of a call, in µs",
      "[here](#the-path-of-a-call-in-µs) [there](../b/z.ts) [folder](../b/) [page](../b/README.md#title)",
      "[web](https://example.org) [gone](gone.ts) [heading](#gone) [other](../b/README.md#gone)",
      "```\n# code\n[code](gone.ts)\n```",
    ].join("\n"),
    "b/README.md": "# Title\n",
  };
  const broken = brokenLinks("a/README.md", (path) => pages[path] ?? "", [...Object.keys(pages), "b/z.ts"]);
  assert.deepEqual(broken, ["gone.ts", "#gone", "../b/README.md#gone"]);
});
