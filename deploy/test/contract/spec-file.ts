import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { repository } from "../../tools/checks/run.ts";

/** A row or rule as it stands in the spec: its cells, parted by " | ", or the whole line of a rule. */
export type WrittenRow = { section: string; text: string };

/** Reads every table's body rows and every numbered rule of a Markdown text, in order. */
export function readSpec(markdown: string): WrittenRow[] {
  const lines = markdown.split("\n");
  const isRuler = (line = ""): boolean => /^\|(?:-+\|)+$/.test(line);
  let section = "";
  return lines.flatMap((line, index) => {
    // The address of an endpoint in brackets is no part of a section's name.
    const heading = /^#+ (.+?)(?: \(`[^`]+`\))?$/.exec(line)?.[1];
    if (heading !== undefined) section = heading;
    if (/^\d+\. /.test(line)) return [{ section, text: line }];
    if (!line.startsWith("|") || isRuler(line) || isRuler(lines[index + 1])) return [];
    return [{ section, text: line.replace(/^\| /, "").replace(/ \|$/, "") }];
  });
}

const specFile = process.env["SPEC_FILE"] ?? join(repository, "../shared/spec/relay-api.md");

/** The rows of the spec, from the file that SPEC_FILE names or from its place beside the repository, if it is there. */
export async function findSpec(): Promise<WrittenRow[] | undefined> {
  return existsSync(specFile) ? readSpec(await readFile(specFile, "utf8")) : undefined;
}
