import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { chartFolder } from "./helm.ts";

/** A value that `helm/values.yaml` describes: its path with dots, what it is for, and what it is by default. */
export type DescribedValue = { section: string; path: string; description: string; default: unknown };

export type Tree = { [key: string]: unknown };

export const isTree = (value: unknown): value is Tree =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What stands at a path with dots; undefined where nothing stands. */
export function valueAt(tree: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((at, key) => (isTree(at) ? at[key] : undefined), tree);
}

/** Paths of all leaves: texts, numbers, switches, lists, and maps that are empty by default. */
function leavesOf(tree: Tree, before: string[] = []): string[] {
  return Object.entries(tree).flatMap(([key, value]) => {
    const path = [...before, key];
    return isTree(value) && Object.keys(value).length > 0 ? leavesOf(value, path) : [path.join(".")];
  });
}

/**
 * The described values in the order of the file: `## @section words` opens a part of the table, `## @param path words`
 * is a row of it, and lines that begin with `##` and three blanks go on with its words. A described map stands for all
 * that is in it.
 */
export function describedValues(text: string): DescribedValue[] {
  const values: unknown = parse(text);
  const found: DescribedValue[] = [];
  let section = "";
  let open: DescribedValue | undefined;
  for (const line of text.split("\n")) {
    const more = /^ *## {3}(\S.*)$/.exec(line)?.[1];
    if (open && more !== undefined) {
      open.description += ` ${more}`;
      continue;
    }
    section = /^ *## @section (.+)$/.exec(line)?.[1] ?? section;
    const [, path, description] = /^ *## @param (\S+) (.+)$/.exec(line) ?? [];
    open = undefined;
    if (path === undefined || description === undefined) continue;
    open = { section, path, description, default: valueAt(values, path) };
    found.push(open);
  }
  return found;
}

/** Leaves that nothing describes, and descriptions of what is not there or is described twice. */
export function undescribed(text: string): string[] {
  const values = parse(text) as Tree;
  const paths = describedValues(text).map(({ path }) => path);
  const isDescribed = (leaf: string): boolean => paths.some((path) => leaf === path || leaf.startsWith(`${path}.`));
  return [
    ...leavesOf(values)
      .filter((leaf) => !isDescribed(leaf))
      .map((leaf) => `${leaf} has no line "## @param ${leaf} …"`),
    ...paths.filter((path) => valueAt(values, path) === undefined).map((path) => `${path} is described but not there`),
    ...paths.filter((path, index) => paths.indexOf(path) !== index).map((path) => `${path} is described twice`),
  ];
}

/** The text of the chart's `values.yaml`. */
export const readValuesFile = (): Promise<string> => readFile(join(chartFolder, "values.yaml"), "utf8");
