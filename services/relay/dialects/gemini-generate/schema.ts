import { UnsupportedError } from "../conversation.ts";
import { createReferences, type References } from "./schema-references.ts";
import { isNode, nodesOf, type Node } from "./schema-nodes.ts";

/** A schema within what Gemini reads, and whether it says less than the one it was made of. */
type Reduced = { schema: Node; isLoose: boolean };

// Beyond these a schema is an attack or a mistake; what is deeper could not be walked either.
const maxDepth = 64;
const maxNodes = 50_000;

// GenerationConfig.responseJsonSchema: "only the following properties are supported".
const keptKeys = new Set([
  "type",
  "title",
  "description",
  "enum",
  "minItems",
  "maxItems",
  "minimum",
  "maximum",
  "required",
  "propertyOrdering",
]);
const knownFormats = new Set(["date-time", "date", "time", "duration", "int32", "int64", "float", "double"]);
// Say nothing about what is valid, or are carried where they are referred to.
const silentKeys = new Set(["$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "default", "examples"]);
const annotations = new Set([...silentKeys, "title", "description", "deprecated", "readOnly", "writeOnly"]);

const keysOfType = new Map<unknown, readonly string[]>([
  ["object", ["properties", "additionalProperties", "required", "propertyOrdering"]],
  ["array", ["items", "prefixItems", "minItems", "maxItems"]],
  ["string", ["format"]],
  ["number", ["minimum", "maximum"]],
  ["integer", ["minimum", "maximum"]],
]);
const structuralKeys = [...new Set([...keysOfType.values()].flat()), "enum"];

type Reducing = { references: References; nodes: number; isLoose: boolean };

const hasStructure = (node: Node): boolean => structuralKeys.some((key) => node[key] !== undefined);

const isPlain = (node: Node): boolean => Object.keys(node).every((key) => annotations.has(key));

function spend(reducing: Reducing, nodes: number, depth: number): void {
  reducing.nodes += nodes;
  if (reducing.nodes > maxNodes || depth > maxDepth)
    throw new UnsupportedError("a JSON schema is too large or too deep");
}

const sizeOf = (node: Node): number => Object.keys(node).length + Object.keys(node["properties"] ?? {}).length;

function mergeNodes(one: Node, other: Node): Node {
  const merged: Node = { ...one, ...other };
  if (isNode(one["properties"]) && isNode(other["properties"])) {
    merged["properties"] = { ...one["properties"], ...other["properties"] };
  }
  if (Array.isArray(one["required"]) && Array.isArray(other["required"])) {
    merged["required"] = [...new Set<unknown>([...one["required"], ...other["required"]])];
  }
  return merged;
}

/**
 * A node with its allOf merged into it; a single reference beside mere annotations stays one, unless it `isWhole`: the
 * outermost schema must not be a mere reference, and what is merged with others must not be one either.
 */
function flatten(node: Node, reducing: Reducing, depth: number, isWhole = depth === 0): Node {
  const { allOf, ...own } = node;
  if (!Array.isArray(allOf)) return node;
  spend(reducing, 1, depth);
  const members = nodesOf(allOf);
  const [first] = members;
  if (members.length === 1 && first && isPlain(own)) {
    const single = isWhole ? reducing.references.follow(first) : first;
    return flatten({ ...single, ...own }, reducing, depth + 1, isWhole);
  }
  const merged = members.reduce((sum, member) => {
    const target = reducing.references.follow(member);
    spend(reducing, 1 + sizeOf(sum) + sizeOf(target), depth);
    return mergeNodes(sum, flatten(target, reducing, depth + 1, true));
  }, {});
  return mergeNodes(merged, own);
}

const mapValues = (node: Node, change: (value: unknown) => unknown): Node =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, change(value)]));

/** One keyword as Gemini reads it; undefined when it does not. */
function reduceKey(key: string, value: unknown, reduceNode: (value: unknown) => Node): Node | undefined {
  if (keptKeys.has(key)) return { [key]: value };
  if (key === "const") return { enum: [value] };
  if (key === "format") return knownFormats.has(String(value)) ? { format: value } : undefined;
  if (key === "properties") return isNode(value) ? { properties: mapValues(value, reduceNode) } : {};
  if (key === "additionalProperties") {
    return { additionalProperties: typeof value === "boolean" ? value : reduceNode(value) };
  }
  if (key === "prefixItems" || (key === "items" && Array.isArray(value))) {
    return Array.isArray(value) ? { prefixItems: value.map(reduceNode) } : {};
  }
  return key === "items" ? { items: reduceNode(value) } : undefined;
}

/** Lists of types are read only with null beside one other; any other list becomes a choice between schemas. */
function splitTypes(node: Node): Node {
  const { type: types } = node;
  if (!Array.isArray(types)) return node;
  const { type: _, ...rest } = node;
  if (types.length === 1) return { ...rest, type: types[0] as unknown };
  const isNullable = types.length === 2 && types.includes("null");
  if (isNullable || rest["anyOf"] !== undefined) return isNullable ? node : rest;
  const moved = new Set(types.flatMap((type) => keysOfType.get(type) ?? []));
  const anyOf = types.map((type: unknown) => {
    const own = (keysOfType.get(type) ?? []).filter((key) => rest[key] !== undefined);
    return { type, ...Object.fromEntries(own.map((key) => [key, rest[key]])) };
  });
  return { ...Object.fromEntries(Object.entries(rest).filter(([key]) => !moved.has(key))), anyOf };
}

/** A union is read only where nothing but annotations stands beside it; the type goes into what it chooses from. */
function withUnion(node: Node, union: Node[]): Node {
  const { type, ...rest } = node;
  const anyOf = union.map((member) =>
    type === undefined || member["type"] !== undefined || "$ref" in member || "anyOf" in member
      ? member
      : { type, ...member },
  );
  return { ...rest, anyOf };
}

/** What Gemini cannot be told in keywords it is told in words. */
function describe(node: Node, unread: Node, reducing: Reducing): Node {
  if (Object.keys(unread).length === 0) return node;
  reducing.isLoose = true;
  const words = `Constraints: ${JSON.stringify(unread)}`;
  const own = node["description"];
  return { ...node, description: typeof own === "string" && own !== "" ? `${own}\n${words}` : words };
}

function reduceReference(node: Node, reducing: Reducing): Node {
  const name = reducing.references.nameOf(String(node["$ref"]));
  if (name === undefined) return describe({}, { $ref: node["$ref"] }, reducing);
  const reference = { $ref: `#/$defs/${name}` };
  // No keyword may stand beside $ref.
  const description = node["description"];
  return typeof description === "string" ? { description, anyOf: [reference] } : reference;
}

function reduceNode(value: unknown, reducing: Reducing, depth: number): Node {
  if (!isNode(value)) return {};
  spend(reducing, 1, depth);
  const node = flatten(value, reducing, depth);
  if (typeof node["$ref"] === "string") return reduceReference(node, reducing);
  const unionKey = ["anyOf", "oneOf"].find((key) => Array.isArray(node[key]));
  const isUnion = unionKey !== undefined && !hasStructure(node);
  const unread: Node = {};
  const kept: Node = {};
  const reduceBelow = (below: unknown): Node => reduceNode(below, reducing, depth + 1);
  for (const [key, member] of Object.entries(node)) {
    if (annotations.has(key) && !keptKeys.has(key)) continue;
    if (isUnion && key === unionKey) continue;
    const reduced = reduceKey(key, member, reduceBelow);
    if (reduced) Object.assign(kept, reduced);
    else unread[key] = member;
  }
  const described = describe(splitTypes(kept), unread, reducing);
  if (!isUnion) return described;
  return withUnion(described, nodesOf(node[unionKey]).map(reduceBelow));
}

/**
 * A JSON schema within the subset that Gemini reads: references into `$defs` only and with nothing beside them, no
 * allOf, no keyword it does not know. What the subset cannot say stands in the descriptions. Throws UnsupportedError
 * for a schema beyond 50,000 nodes or 64 levels.
 */
export function reduceSchema(schema: unknown): Reduced {
  const root = isNode(schema) ? schema : {};
  const reducing: Reducing = { references: createReferences(root), nodes: 0, isLoose: false };
  const reduced = reduceNode(reducing.references.follow(root), reducing, 0);
  const definitions: [string, Node][] = [];
  for (const { name, target } of reducing.references.pending()) {
    definitions.push([name, reduceNode(target, reducing, 1)]);
  }
  const $defs = definitions.length > 0 && { $defs: Object.fromEntries(definitions) };
  return { schema: { ...reduced, ...$defs }, isLoose: reducing.isLoose };
}
