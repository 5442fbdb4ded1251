import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { linkRecipes, renderRecipes } from "../../test/clients/recipes.ts";
import { callersTable } from "../../test/contract/callers-table.ts";
import { renderErrorTable } from "../../test/contract/error-table.ts";
import { renderAnswerKinds } from "../../../services/relay/testing/answer-kinds.ts";
import { repository } from "./run.ts";

/** What a declared variable's schema may say; the subset of JSON Schema that config.ts files use. */
type DeclaredVariable = {
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  enum?: unknown[];
  anyOf?: { const?: unknown }[];
};

/** The variables of a service as its config.ts declares them. */
export type Variables = { properties: Record<string, object>; required?: string[] };

const code = (value: unknown): string => `\`${String(value)}\``;
const grouped = (value: number): string => value.toLocaleString("en-US");

function defaultOf(declared: DeclaredVariable, isRequired: boolean): string {
  if (declared.default === "") return "empty";
  if (declared.default !== undefined) return code(declared.default);
  return isRequired ? "must be set" : "not set";
}

function rangeOf(least: number | undefined, most: number | undefined, unit: string): string[] {
  if (least !== undefined && most !== undefined) return [`${grouped(least)} to ${grouped(most)}${unit}`];
  if (least !== undefined) return [`at least ${grouped(least)}${unit}`];
  return most === undefined ? [] : [`at most ${grouped(most)}${unit}`];
}

function limitsOf(declared: DeclaredVariable): string {
  const choices = declared.enum ?? declared.anyOf?.map((choice) => choice.const) ?? [];
  const isNotEmpty = declared.minLength === 1 && declared.maxLength === undefined;
  return [
    ...(choices.length > 0 ? [choices.map(code).join(" or ")] : []),
    ...rangeOf(declared.minimum, declared.maximum, ""),
    ...(isNotEmpty ? ["not empty"] : rangeOf(declared.minLength, declared.maxLength, " characters")),
    ...(declared.pattern === undefined ? [] : [`like ${code(declared.pattern)}`]),
  ].join(", ");
}

/** Renders declared variables as a Markdown table, in the order of their declaration. */
export function renderVariables({ properties, required = [] }: Variables): string {
  const rows = Object.entries(properties).map(([name, schema]) => {
    const declared: DeclaredVariable = schema;
    const cells = [code(name), declared.description, defaultOf(declared, required.includes(name)), limitsOf(declared)];
    return `| ${cells.map((cell) => (cell ?? "").replaceAll("|", "\\|")).join(" | ")} |`;
  });
  return ["| variable | meaning | default | limits |", "|---|---|---|---|", ...rows].join("\n");
}

type TableName = "variables" | "errors" | "answers" | "callers" | "recipes";

/** Puts a table between the markers of this name in a README; undefined when the README has none. */
export function withTable(readme: string, name: TableName | "values", table: string): string | undefined {
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`];
  const from = readme.indexOf(start);
  const to = readme.indexOf(end, from);
  if (from === -1 || to === -1) return undefined;
  return `${readme.slice(0, from + start.length)}\n\n${table}\n\n${readme.slice(to)}`;
}

/** The services that declare variables, and migrate, with the declaration that each process reads at its start. */
export async function declaredServices(): Promise<{ service: string; readmeFile: string; variables: Variables }[]> {
  const folders = (await readdir(join(repository, "services"))).toSorted();
  const services = folders.filter((service) => existsSync(join(repository, "services", service, "config.ts")));
  const places = services.map((service) => ({ service, folder: `services/${service}`, readme: "README.md" }));
  places.push({ service: "migrate", folder: "deploy/tools/migrate", readme: "../../README.md" });
  return Promise.all(
    places.map(async ({ service, folder, readme }) => {
      const file = pathToFileURL(join(repository, folder, "config.ts"));
      const { variables } = (await import(file.href)) as { variables: Variables };
      return { service, readmeFile: join(repository, folder, readme), variables };
    }),
  );
}

/** The README with what callers are told of errors, of the parts of answers, and of how clients are set up. */
export const relayReadme = join(repository, "services/relay/README.md");

/** The first README that anybody reads. */
export const firstReadme = join(repository, "README.md");

/** The README with who may call which method. */
export const callersReadme = join(repository, "services/shared/README.md");

async function writeTable(readmeFile: string, name: TableName, table: string): Promise<void> {
  const readme = withTable(await readFile(readmeFile, "utf8"), name, table);
  if (readme === undefined)
    throw new Error(`${readmeFile} needs the lines <!-- ${name}:start --> and <!-- ${name}:end -->`);
  await writeFile(readmeFile, readme);
}

if (import.meta.main) {
  for (const { readmeFile, variables } of await declaredServices()) {
    await writeTable(readmeFile, "variables", renderVariables(variables));
  }
  await writeTable(relayReadme, "errors", renderErrorTable());
  await writeTable(relayReadme, "answers", renderAnswerKinds());
  await writeTable(relayReadme, "recipes", renderRecipes());
  await writeTable(firstReadme, "recipes", linkRecipes());
  await writeTable(callersReadme, "callers", callersTable());
}
