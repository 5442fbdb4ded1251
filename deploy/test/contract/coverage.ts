import type { TestResult } from "./passed-tests.ts";
import { type SpecRow, titleOf } from "./spec-rows.ts";

/** What a run has proven of the spec, as text for people, and whether no row is left. */
export type Coverage = { isComplete: boolean; text: string };

/** Reads what the reporter passed-tests.ts wrote. */
export function readCounted(lines: string): TestResult[] {
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as TestResult);
}

/**
 * Counts the rows of the spec that a passed test stands for: its full name contains the row's title, letter by letter.
 */
export function countRows(rows: readonly SpecRow[], tests: readonly TestResult[]): Coverage {
  const passed = tests.filter(({ isPassed }) => isPassed).map(({ name }) => name);
  const isCovered = (row: SpecRow): boolean => passed.some((name) => name.includes(titleOf(row)));
  const missing = rows.filter((row) => !isCovered(row));
  const skipped = (row: SpecRow): string =>
    tests.some(({ name }) => name.includes(titleOf(row))) ? " (its tests were skipped)" : "";
  const lines = [
    ...missing.map((row) => `no passing test: ${titleOf(row)}${skipped(row)}`),
    `API spec rows covered: ${rows.length - missing.length} of ${rows.length}`,
  ];
  return { isComplete: missing.length === 0, text: lines.join("\n") };
}
