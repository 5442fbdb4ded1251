import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repository } from "../tools/checks/run.ts";

type Rule = { isKept: boolean; pattern: RegExp };

/** The patterns of a .dockerignore, of which the last that fits a path or a folder above it decides. */
function rulesOf(text: string): Rule[] {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const isKept = line.startsWith("!");
    const source = (isKept ? line.slice(1) : line)
      .replace(/[.+^${}()|[\]\\]/g, "\\$&")
      .replace(/\*\*\/|\*/g, (stars) => (stars === "*" ? "[^/]*" : "(?:.*/)?"));
    return { isKept, pattern: new RegExp(`^${source}$`) };
  });
}

/** Whether a .dockerignore of this text keeps the file in what the image is built from. */
export function isInContext(text: string, path: string): boolean {
  const parts = path.split("/");
  const selfAndAbove = parts.map((_part, index) => parts.slice(0, index + 1).join("/"));
  const decisive = rulesOf(text).findLast(({ pattern }) => selfAndAbove.some((above) => pattern.test(above)));
  return decisive?.isKept ?? true;
}

/** The files that the Dockerfile's COPY of this working copy takes, as paths from the repository's folder. */
export function copiedFiles(): string[] {
  const text = readFileSync(join(repository, ".dockerignore"), "utf8");
  const files = globSync("{deploy,proto,services}/**", { cwd: repository, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(repository.length + 1));
  return files.filter((file) => isInContext(text, file)).toSorted();
}
