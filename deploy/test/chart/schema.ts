import { isTree, type Tree } from "./values-file.ts";

/** The parts of a JSON Schema that are looked at here. */
export type Schema = {
  $ref?: string;
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | object;
  definitions?: Record<string, Schema>;
};

/**
 * Compares a schema with the values that it is for: the same keys at every level, each described, none open. A map that
 * is empty by default and has no properties is free, and what is in it is nobody's business here.
 */
export function schemaProblems(root: Schema, values: Tree): string[] {
  const resolved = (schema: Schema): Schema => {
    const target = schema.$ref && root.definitions?.[schema.$ref.replace("#/definitions/", "")];
    return target ? { ...resolved(target), ...schema } : schema;
  };
  const compare = (schema: Schema, tree: Tree, path: string): string[] => {
    const { properties = {}, additionalProperties } = schema;
    const keys = [...new Set([...Object.keys(properties), ...Object.keys(tree)])];
    const open = additionalProperties === false ? [] : [`${path || "the top"}: unknown keys are accepted`];
    return [
      ...open,
      ...keys.toSorted().flatMap((key) => compareKey(properties[key], tree[key], path ? `${path}.${key}` : key)),
    ];
  };
  const compareKey = (found: Schema | undefined, value: unknown, path: string): string[] => {
    if (!found) return [`${path}: not in the schema`];
    if (value === undefined) return [`${path}: not in values.yaml`];
    const schema = resolved(found);
    if (isTree(value) && schema.properties) return compare(schema, value, path);
    return schema.description ? [] : [`${path}: no description`];
  };
  return compare(resolved(root), values, "");
}
