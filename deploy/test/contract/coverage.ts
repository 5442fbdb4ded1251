import type { TestResult } from "../../tools/local/test-results.ts";
import { type SpecClause, standsFor, titleOf } from "./spec-rows.ts";

/** What a run has proven of the spec, as text for people, and whether no clause is left. */
export type Coverage = { isComplete: boolean; text: string };

type Tested = Pick<TestResult, "name" | "outcome">;

/** Counts the clauses of the spec that a passed test stands for, by its full name. */
export function countClauses(clauses: readonly SpecClause[], tests: readonly Tested[]): Coverage {
  const named = tests.filter(({ name }) => name.includes("API spec, "));
  const passed = named.filter(({ outcome }) => outcome === "passed");
  const missing = clauses.filter((clause) => !passed.some(({ name }) => standsFor(name, clause)));
  const skipped = (clause: SpecClause): string =>
    named.some(({ name, outcome }) => outcome === "skipped" && standsFor(name, clause))
      ? " (its tests were skipped)"
      : "";
  const lines = [
    ...missing.map((clause) => {
      const { section, row, quote } = clause;
      return `no passing test: ${titleOf({ section, quote: row })} … ${quote}${skipped(clause)}`;
    }),
    `API spec clauses covered: ${clauses.length - missing.length} of ${clauses.length}`,
  ];
  return { isComplete: missing.length === 0, text: lines.join("\n") };
}
