import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { repository } from "../tools/checks/run.ts";

/** What a process needs of the repository and of packages once it has loaded its entry file. */
export type ImageContents = { files: Set<string>; folders: Set<string>; packages: Set<string> };

// Types are gone when it runs.
const typeImport = /^(?:import|export) type [^;]*;/gm;
const comment = /^\s*(?:\/\/|\/?\*).*$/gm;
const ownFile = /"((?:\.{1,2}\/|#shared\/|#fake-provider\/|#proto\/)[^"]+\.(?:ts|mjs|json))"/g;
const fromPackage = /(?:\bfrom |\bimport )"([a-z@][^":]*)"/g;
const resolvedPackage = /(?:\bimport\(|\bimport\.meta\.resolve\()"([a-z@][^":]*)"/g;
const besides = /(?:new URL\(|import\.meta\.dirname, )["`]([^"`$]+)/g;

/** Follows the imports of a file, and what it names beside itself to be read, without running anything. */
export function neededBy(entry: string): ImageContents {
  const needed: ImageContents = { files: new Set(), folders: new Set(), packages: new Set() };
  const open = [entry];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (needed.files.has(file)) continue;
    needed.files.add(file);
    const text = readFileSync(join(repository, file), "utf8").replace(typeImport, "").replace(comment, "");
    for (const [, name] of text.matchAll(ownFile)) {
      const path = pathOf(name as string, file);
      // What the local stack leaves for the operator's tool is of that machine only.
      if (!path.startsWith(".local/")) open.push(path);
    }
    // Below the imports the same words may stand in a text, such as an example for callers.
    const head = text.split(/^(?!import |export [{*]|\s|\})/m, 1).join();
    const named = [...head.matchAll(fromPackage), ...text.matchAll(resolvedPackage)];
    for (const [, name] of named) needed.packages.add(packageOf(name as string));
    for (const [, name] of text.matchAll(besides)) {
      const path = pathOf(name as string, file);
      if (existsSync(join(repository, path)) && !/\.(ts|mjs|json)$/.test(path)) needed.folders.add(path);
    }
  }
  return needed;
}

function pathOf(name: string, importer: string): string {
  if (name.startsWith("#shared/")) return name.replace("#shared", "services/shared");
  if (name.startsWith("#fake-provider/")) return name.replace("#fake-provider", "services/fake-provider");
  if (name.startsWith("#proto/")) return name.replace("#proto", "proto/gen");
  return normalize(join(dirname(importer), name)).replace(/\/$/, "");
}

const packageOf = (name: string): string =>
  name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");
