import { alertRules } from "./written.ts";

const code = (text: string): string => `\`${text}\``;

/** The alerts as a table, pages first. */
export function alertTable(): string {
  const rows = alertRules().map(({ alert, labels, annotations, for: pending }) => {
    const { severity = "", long_window: long, short_window: short } = labels;
    const told = (annotations["summary"] ?? "").replace(/\{\{ \$labels\.(\w+) \}\}/g, "<$1>");
    const windows = long ? ` (${long} and ${short})` : "";
    return { severity, alert, cells: [`[${alert}](runbooks/${alert}.md)${windows}`, pending ?? "at once", told] };
  });
  const ordered = rows.toSorted(
    (one, other) => one.severity.localeCompare(other.severity) || one.alert.localeCompare(other.alert),
  );
  return [
    "| severity | alert | pending for | says |",
    "|---|---|---|---|",
    ...ordered.map(({ severity, cells }) => `| ${code(severity)} | ${cells.join(" | ").replaceAll("<", "&lt;")} |`),
  ].join("\n");
}

const [start, end] = ["<!-- alerts:start -->", "<!-- alerts:end -->"];

/** The README with the table between its marks. */
export function readmeWithAlerts(readme: string, table: string): string {
  const from = readme.indexOf(start);
  const to = readme.indexOf(end);
  if (from === -1 || to === -1) throw new Error(`README.md needs the lines ${start} and ${end}`);
  return `${readme.slice(0, from + start.length)}\n\n${table}\n\n${readme.slice(to)}`;
}
