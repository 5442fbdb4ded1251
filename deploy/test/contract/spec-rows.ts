import { errorClauses } from "./spec-clauses-errors.ts";
import { serviceClauses } from "./spec-clauses.ts";

/**
 * A table row, a numbered rule or a paragraph of the public API spec. `section` is the heading above it, without an
 * address in brackets; `quote` is how the row begins, in the spec's words, cells parted by " | ".
 */
export type SpecRow = { section: string; quote: string; clauses: string[] };

/** One thing that a row states. */
export type SpecClause = { section: string; row: string; quote: string };

/** Lines of the spec that only lead to what follows them. */
export const introductions: string[] = [
  "The service is an HTTP relay in front of upstream model providers' APIs.",
  "Recommended format per model family:",
  "**Error body.** See Errors.",
  "Only the video task has a status shown.",
  "Rules:",
  "Payload shapes not itemized for individual endpoints (each is a separate place):",
];

/** Every table row, every numbered rule and every paragraph of the spec that states something. */
export const specRows: SpecRow[] = Object.entries({ ...serviceClauses, ...errorClauses }).flatMap(([section, rows]) =>
  Object.entries(rows).map(([quote, clauses]) => ({ section, quote, clauses })),
);

export const specClauses: SpecClause[] = specRows.flatMap(({ section, quote: row, clauses }) =>
  clauses.map((quote) => ({ section, row, quote })),
);

/** What the name of a test must contain to stand for a row; a clause of it stands behind. */
export function titleOf({ section, quote }: Pick<SpecRow, "section" | "quote">): string {
  return `API spec, ${section}: ${quote}`;
}

/** Whether a test's full name names a clause: the row's title, then its quote, before the title of another row. */
export function standsFor(name: string, { section, row, quote }: SpecClause): boolean {
  const title = titleOf({ section, quote: row });
  return name
    .split(/(?=API spec, )/)
    .some((part) => part.startsWith(title) && part.slice(title.length).includes(quote));
}
