import { isNode, type Node } from "./schema-nodes.ts";

/** References of one schema, gathered under names in `$defs`. */
export type References = {
  /** The name under which what it points to will stand; undefined when it points to nothing within the schema. */
  nameOf: (reference: string) => string | undefined;
  /** What a node that is a reference points to, through chains of them, or {}; other nodes as they are. */
  follow: (node: Node) => Node;
  /** Everything that was named, also what is named meanwhile. */
  pending: () => Iterable<{ name: string; target: Node }>;
};

const maxReferenceLength = 1_000;
// Longer chains are circles.
const maxChain = 8;

function decode(token: string): string {
  const unescaped = token.replaceAll("~1", "/").replaceAll("~0", "~");
  try {
    return decodeURIComponent(unescaped);
  } catch {
    return unescaped;
  }
}

/** What a JSON pointer such as `#/definitions/City` points to. */
function resolve(root: Node, reference: string): Node | undefined {
  if (reference === "#") return root;
  if (!reference.startsWith("#/") || reference.length > maxReferenceLength) return undefined;
  let value: unknown = root;
  for (const token of reference.slice(2).split("/")) {
    const key = decode(token);
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Node)[key];
  }
  return isNode(value) ? value : undefined;
}

export function createReferences(root: Node): References {
  const names = new Map<string, string>();
  const named: { name: string; target: Node }[] = [];
  const taken = new Set<string>();
  const nameOf = (reference: string): string | undefined => {
    const known = names.get(reference);
    if (known !== undefined) return known;
    const target = resolve(root, reference);
    if (!target) return undefined;
    const last = decode(reference.slice(reference.lastIndexOf("/") + 1)).replaceAll(/[^A-Za-z0-9_.-]/g, "_");
    let name = last || "_";
    while (taken.has(name)) name += `_${named.length}`;
    taken.add(name);
    names.set(reference, name);
    named.push({ name, target });
    return name;
  };
  const follow = (node: Node): Node => {
    let target = node;
    for (let steps = 0; steps < maxChain && typeof target["$ref"] === "string"; steps += 1) {
      target = resolve(root, target["$ref"]) ?? {};
    }
    return typeof target["$ref"] === "string" ? {} : target;
  };
  // An array's own iterator also gives what is pushed on the way.
  return { nameOf, follow, pending: () => named };
}
