import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { withTable } from "../../tools/checks/readme-tables.ts";
import { chartFolder } from "./helm.ts";
import { type DescribedValue, describedValues, readValuesFile } from "./values-file.ts";

/** The README that shows the table of values. */
export const chartReadme = join(chartFolder, "README.md");

function defaultOf(value: unknown): string {
  if (value === "" || value === null) return "empty";
  return `\`${JSON.stringify(value)}\``;
}

/** Renders described values as Markdown, one table for each section. */
export function renderValues(values: DescribedValue[]): string {
  const sections = [...new Set(values.map(({ section }) => section))];
  return sections
    .map((section) => {
      const rows = values
        .filter((value) => value.section === section)
        .map(({ path, description, default: value }) => {
          const cells = [`\`${path}\``, description, defaultOf(value)];
          return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
        });
      return [`### ${section}`, "", "| value | meaning | default |", "|---|---|---|", ...rows].join("\n");
    })
    .join("\n\n");
}

/** The README as it is, and as it should be. Throws when it has no place for the table. */
export async function readmeWithValues(): Promise<{ is: string; should: string }> {
  const is = await readFile(chartReadme, "utf8");
  const should = withTable(is, "values", renderValues(describedValues(await readValuesFile())));
  if (should === undefined) throw new Error(`${chartReadme} needs <!-- values:start --> and <!-- values:end -->`);
  return { is, should };
}

if (import.meta.main) await writeFile(chartReadme, (await readmeWithValues()).should);
