import { type Tree, valueAt } from "./values-file.ts";

const components = ["relay", "authQuota", "billing", "videoTask", "console"];

/** What a variable of a template stands for: paths in the values, several where it is any component's part. */
function aliasesOf(template: string): Map<string, string[]> {
  const aliases = new Map<string, string[]>();
  const anyComponent =
    /(\$\w+) := \(?index \S*Values \(include "model-relay\.valuesKey"[^)]*\)\)?(?:\.(\w[\w.]*))? -?\}\}/g;
  for (const [, name = "", more] of template.matchAll(anyComponent)) {
    aliases.set(
      name,
      components.map((component) => (more ? `${component}.${more}` : component)),
    );
  }
  for (const [, name = "", path = ""] of template.matchAll(/(\$\w+) := \$?\.(?:root\.)?Values\.(\w[\w.]*) -?\}\}/g))
    aliases.set(name, [path]);
  return aliases;
}

/** Values that a template names and a values.yaml does not have: they could be set by nobody. */
export function undeclaredValues(template: string, values: Tree): string[] {
  const direct = [...template.matchAll(/\.Values\.(\w[\w.]*)/g)].map(([, path = ""]) => [path]);
  const aliased = [...aliasesOf(template)].flatMap(([name, paths]) =>
    [...template.matchAll(new RegExp(`\\${name}\\.(\\w[\\w.]*)`, "g"))].map(([, more = ""]) =>
      paths.map((path) => `${path}.${more}`),
    ),
  );
  return [...direct, ...aliased]
    .filter((paths) => paths.length > 0 && paths.every((path) => valueAt(values, path) === undefined))
    .map((paths) => paths.join(" or "));
}
