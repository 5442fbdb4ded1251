import { isDeepStrictEqual } from "node:util";
import { isMap, isScalar, parseDocument, stringify, type Document } from "yaml";

/** An entry that is to be added to a section of the catalog. */
export type CatalogAddition = { section: "upstreams" | "models"; name: string; entry: object };

/** Lines that are new in a file, from this line on (1: the first). */
export type Insertion = { line: number; lines: string[] };

/** A file with what was added, or why it cannot be added here, as a sentence. */
export type EditedFile = { text: string; insertions: Insertion[]; refusal?: undefined } | { refusal: string };

type Place = { offset: number; text: string };

const isOf = (source: unknown): source is Record<string, Record<string, unknown>> =>
  typeof source === "object" && source !== null;

// As relays read it: every scalar is text.
const parse = (text: string): Document => parseDocument(text, { schema: "failsafe" });

/**
 * Adds entries at the end of their sections. What stands in the file keeps every byte, its comments too: whoever
 * reviews the change sees the new lines and nothing else. The result is read again, and refused when it is not exactly
 * the file before with the entries.
 */
export function addToCatalog(text: string, additions: readonly CatalogAddition[]): EditedFile {
  const document = parse(text);
  const before: unknown = document.errors.length > 0 ? undefined : document.toJS();
  if (!isOf(before)) return { refusal: "The file in force cannot be read as a catalog." };
  const taken = additions.find(({ section, name }) => Object.hasOwn(before[section] ?? {}, name));
  if (taken) return { refusal: `${taken.name} is already among the ${taken.section}.` };
  const places: Place[] = [];
  for (const section of ["upstreams", "models"] as const) {
    const added = additions.filter((addition) => addition.section === section);
    if (added.length === 0) continue;
    const end = endOfSection(text, document, section);
    if (!end) {
      return { refusal: `The section ${section} is not written with one entry below the other; add to it by hand.` };
    }
    places.push({ offset: end.offset, text: added.map((addition) => linesOf(addition, end.indent)).join("") });
  }
  const edited = insertAt(text, places);
  const expected = { ...before };
  for (const { section, name, entry } of additions) {
    expected[section] = { ...expected[section], [name]: asTexts(entry) };
  }
  const after = parse(edited.text);
  if (after.errors.length > 0 || !isDeepStrictEqual(after.toJS(), expected)) {
    return { refusal: "The file in force is written in a way that this form cannot add to; add to it by hand." };
  }
  return edited;
}

/** Where a line can be put behind the last entry of a section, and how far its entries are indented. */
function endOfSection(
  text: string,
  document: Document,
  section: string,
): { offset: number; indent: number } | undefined {
  const map = document.get(section, true);
  if (!isMap(map) || map.flow === true) return undefined;
  const key = map.items[0]?.key;
  if (!isScalar(key) || !key.range || !map.range) return undefined;
  const lastCharacter = text.slice(0, map.range[1]).trimEnd().length;
  const lineEnd = text.indexOf("\n", lastCharacter);
  const indent = key.range[0] - (text.lastIndexOf("\n", key.range[0] - 1) + 1);
  return { offset: lineEnd === -1 ? text.length : lineEnd + 1, indent };
}

function linesOf({ name, entry }: CatalogAddition, indent: number): string {
  const yaml = stringify({ [name]: entry }, { lineWidth: 0 });
  return yaml.replaceAll(/^(?=.)/gm, " ".repeat(indent));
}

function insertAt(text: string, places: readonly Place[]): { text: string; insertions: Insertion[] } {
  const lineBreak = text.includes("\r\n") ? "\r\n" : "\n";
  const insertions: Insertion[] = [];
  let result = "";
  let offset = 0;
  for (const place of places.toSorted((one, other) => one.offset - other.offset)) {
    result += text.slice(offset, place.offset);
    if (result !== "" && !result.endsWith("\n")) result += lineBreak;
    const lines = place.text.trimEnd().split("\n");
    insertions.push({ line: result.split("\n").length, lines });
    result += lines.map((line) => `${line}${lineBreak}`).join("");
    offset = place.offset;
  }
  return { text: result + text.slice(offset), insertions };
}

/** The values of an entry as they are read back. */
function asTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asTexts);
  if (typeof value !== "object" || value === null) return String(value);
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, asTexts(inner)]));
}

const contextLines = 3;

/** New lines with those around them, as diffs are written; each part begins with its place in the new file. */
export function diffOf({ text, insertions }: { text: string; insertions: readonly Insertion[] }): string {
  const all = text.split("\n");
  return insertions
    .map(({ line, lines }) => {
      const first = Math.max(1, line - contextLines);
      const around = (from: number, to: number): string[] =>
        all.slice(from - 1, to - 1).map((one) => ` ${one.trimEnd()}`);
      const end = line + lines.length;
      const after = around(end, Math.min(end + contextLines, all.length));
      return [`@@ line ${line} @@`, ...around(first, line), ...lines.map((one) => `+${one}`), ...after].join("\n");
    })
    .join("\n");
}
