/** A migration by its name without the ending, and its text. */
export type Migration = { name: string; text: string };

const requiredColumn =
  /\badd\s+(column\s+)?(if\s+not\s+exists\s+)?(?!(constraint|check)\b)\w+\s[^,;]*\bnot\s+null\b(?![^,;]*\bdefault\b)/i;

// What the version before may still read or write, or may not know that it must.
const breaking: Record<string, RegExp> = {
  "drops something": /\bdrop\s+(?!(default|not\s+null|constraint)\b)\w+/i,
  "renames something": /\brename\b/i,
  "forbids NULL": /\bset\s+not\s+null\b/i,
  "adds a column that must be given": requiredColumn,
  "changes a type": /\balter\s+(column\s+)?\w+\s+(set\s+data\s+)?type\b/i,
};

const mark = /^-- contract of (\S+)$/gm;

/**
 * What in a migration the version before this one could not live with, in words. It may contract what an earlier
 * migration has expanded that was in the version before already, and says so: `-- contract of 0003_console`.
 */
export function problemsOf({ name, text }: Migration, before: ReadonlySet<string>): string[] {
  const up = text.split(/^-- down migration/im, 1)[0] ?? "";
  const found = Object.entries(breaking).filter(([, pattern]) => pattern.test(wordsOf(up)));
  const marks = [...up.matchAll(mark)].map(([, expanded = ""]) => expanded);
  const unknown = marks.filter((expanded) => !before.has(expanded));
  return [
    ...unknown.map((expanded) => `${name}: contracts ${expanded}, which the version before does not have`),
    ...(marks.length > 0 ? [] : found.map(([what]) => `${name}: ${what}, without a mark of what it contracts`)),
  ];
}

/** The statements without comments and texts. */
function wordsOf(sql: string): string {
  return sql.replaceAll(/--.*$/gm, "").replaceAll(/'(?:[^']|'')*'/g, "''");
}
