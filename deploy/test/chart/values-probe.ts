import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { chartFolder, template, withoutRandom } from "./helm.ts";
import { describedValues, isTree, type Tree, valueAt } from "./values-file.ts";

/** A value of the same sort as the default that can be told in the output from all others. */
function probeOf(value: unknown, index: number): unknown {
  const word = `probe-${index}x`;
  // A choice: of the others, one makes more objects than a render without a cluster does.
  if (value === "auto") return "always";
  if (typeof value === "boolean") return true;
  if (typeof value === "number") return 31_000 + index;
  if (Array.isArray(value)) return [{ name: word }];
  return isTree(value) ? { [word]: word } : word;
}

/** The tree with another value at a path. */
function withValue(tree: Tree, path: string, value: unknown): Tree {
  const [key = "", ...rest] = path.split(".");
  return { ...tree, [key]: rest.length === 0 ? value : withValue(tree[key] as Tree, rest.join("."), value) };
}

const changed = (value: unknown, index: number): unknown => (value === true ? false : probeOf(value, index));

/** The chart without what refuses values, so that any may be tried; with one rules file and one dashboard. */
async function openChart(folder: string): Promise<string> {
  const chart = join(folder, "chart");
  await cp(chartFolder, chart, { recursive: true, filter: (path) => !path.startsWith(join(chartFolder, "files")) });
  await rm(join(chart, "values.schema.json"));
  await rm(join(chart, "templates/validate.tpl"));
  for (const file of ["rules/a.yaml", "dashboards/a.json"]) {
    await mkdir(join(chart, "files", file, ".."), { recursive: true });
    await writeFile(join(chart, "files", file), "a: deploy/observability/runbooks/a.md\n");
  }
  return chart;
}

/**
 * Values of a values.yaml that change nothing in any render. Most are seen to be used in one render, in which each has
 * a value of its own; those that do not show are changed one by one: with the defaults, with everything on, with the
 * development set, too, and with the defaults and Jobs for backups. Needs an empty
 * folder. Throws when the chart does not render.
 */
export async function unusedValues(text: string, folder: string): Promise<string[]> {
  const chart = await openChart(folder);
  const defaults = parse(text) as Tree;
  const paths = describedValues(text).map(({ path }) => path);
  let count = 0;
  const rendered = async (values: Tree): Promise<string> => {
    const file = join(folder, `${count++}.yaml`);
    await writeFile(file, stringify(values));
    const { code, output, errors } = await template(file, [], { folder: chart });
    if (code !== 0) throw new Error(errors);
    return withoutRandom(output);
  };

  let full = defaults;
  for (const [index, path] of paths.entries()) full = withValue(full, path, probeOf(valueAt(defaults, path), index));
  // A given certificate stands in the way of one that is made: one component has none.
  full = withValue({ ...full, dev: defaults["dev"], extraObjects: [] }, "grpcTls.existingSecrets.console", "");
  const jobs = withValue(withValue(defaults, "backup.enabled", true), "restore.folder", "a");
  const bases = [defaults, full, withValue(full, "dev.enabled", true), jobs];
  const before = await Promise.all(bases.map(rendered));

  // Seconds may be shown as milliseconds.
  const isShown = (index: number): boolean =>
    new RegExp(`probe-${index}x|(?<!\\d)${31_000 + index}(?:000)?(?!\\d)`).test(before[1] ?? "");
  const isUsed = async (path: string, index: number): Promise<boolean> => {
    for (const [at, base] of bases.entries()) {
      const other = await rendered(withValue(base, path, changed(valueAt(base, path), index)));
      if (other !== before[at]) return true;
    }
    return false;
  };
  const unused: string[] = [];
  for (const [index, path] of paths.entries()) {
    if (!isShown(index) && !(await isUsed(path, index))) unused.push(path);
  }
  return unused;
}
