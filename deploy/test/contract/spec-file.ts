import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { repository } from "../../tools/checks/run.ts";

/** A row, rule or paragraph as it stands in the spec: its cells, parted by " | ", or the whole line. */
export type WrittenRow = { section: string; text: string };

/**
 * Reads every table's body rows, every numbered rule and every paragraph of a Markdown text, in order, but those that
 * only say that something is not shown.
 */
export function readSpec(markdown: string): WrittenRow[] {
  const lines = markdown.split("\n");
  const isRuler = (line = ""): boolean => /^\|(?:-+\|)+$/.test(line);
  let section = "";
  return lines.flatMap((line, index) => {
    // The address of an endpoint in brackets is no part of a section's name.
    const heading = /^#+ (.+?)(?: \(`[^`]+`\))?$/.exec(line)?.[1];
    if (heading !== undefined) section = heading;
    if (heading !== undefined || line === "" || /^[^.]*: not shown\.$/.test(line)) return [];
    if (!line.startsWith("|")) return [{ section, text: line }];
    if (isRuler(line) || isRuler(lines[index + 1])) return [];
    return [{ section, text: line.replace(/^\| /, "").replace(/ \|$/, "") }];
  });
}

const specFile = process.env["SPEC_FILE"] ?? join(repository, "../shared/spec/relay-api.md");

/** The rows of the spec, from the file that SPEC_FILE names or from its place beside the repository, if it is there. */
export async function findSpec(): Promise<WrittenRow[] | undefined> {
  return existsSync(specFile) ? readSpec(await readFile(specFile, "utf8")) : undefined;
}
