import type { Counted } from "./passed-tests.ts";
import { type SpecRow, titleOf } from "./spec-rows.ts";

/** What a run has proven of the spec, as text for people, and whether no row of the work in hand is left. */
export type Coverage = { isComplete: boolean; text: string };

const pieces = ["video"] as const;

/** Reads what the reporter passed-tests.ts wrote. */
export function readCounted(lines: string): Counted[] {
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Counted);
}

/**
 * Counts the rows of the spec that a passed test stands for: its full name contains the row's title, letter by letter.
 * Rows of later pieces of work are listed too, but none of them is missed.
 */
export function countRows(rows: readonly SpecRow[], tests: readonly Counted[]): Coverage {
  const passed = tests.filter(({ isPassed }) => isPassed).map(({ name }) => name);
  const isCovered = (row: SpecRow): boolean => passed.some((name) => name.includes(titleOf(row)));
  const now = rows.filter(({ piece }) => piece === undefined);
  const missing = now.filter((row) => !isCovered(row));
  const later = pieces.flatMap((piece) => {
    const ofPiece = rows.filter((row) => row.piece === piece);
    if (ofPiece.length === 0) return [];
    const covered = ofPiece.filter(isCovered);
    return [
      `API spec rows of a later piece, ${piece}, covered: ${covered.length} of ${ofPiece.length}`,
      ...ofPiece.map((row) => `  ${covered.includes(row) ? "covered" : "open"}: ${titleOf(row)}`),
    ];
  });
  const skipped = (row: SpecRow): string =>
    tests.some(({ name }) => name.includes(titleOf(row))) ? " (its tests were skipped)" : "";
  const lines = [
    ...later,
    ...missing.map((row) => `no passing test: ${titleOf(row)}${skipped(row)}`),
    `API spec rows covered: ${now.length - missing.length} of ${now.length}`,
  ];
  return { isComplete: missing.length === 0, text: lines.join("\n") };
}
