import { stableHash } from "../call-id.ts";
import { checkToolCount } from "../check-inputs.ts";
import { UnsupportedError } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";

/** A tool as this format names it: a namespace is a group of tools, which no other format has. */
export type OwnName = { namespace?: string; name: string };

/** What the tools of one request are called in formats without namespaces, and back. */
export type ToolNames = {
  flatNames: Map<string, string>;
  ownNames: Map<string, OwnName>;
  /** Names that stand for one tool already. */
  taken: Set<string>;
};

const maxLength = 64;
const markLength = 8;

/** Far above what any provider takes. One name of megabytes would be joined and hashed for each tool of its group. */
const maxNameLength = 512;

const keyOf = (namespace: string, name: string): string => JSON.stringify([namespace, name]);

/** A name that every provider takes: at most 64 of A-Z, a-z, 0-9, _ and -; a hash tells those apart that would meet. */
function joinName(namespace: string, name: string, taken: ReadonlySet<string>): string {
  const joined = `${namespace}__${name}`;
  const plain = joined.replaceAll(/[^\w-]/g, "_");
  if (plain === joined && plain.length <= maxLength && !taken.has(plain)) return plain;
  const begin = plain.slice(0, maxLength - markLength - 1);
  for (let attempt = 0; ; attempt += 1) {
    const mark = stableHash(`${keyOf(namespace, name)}${attempt}`).slice(0, markLength);
    if (!taken.has(`${begin}_${mark}`)) return `${begin}_${mark}`;
  }
}

/**
 * The flat name of a tool, which need not be declared: a history may hold calls of tools that are gone. Throws
 * UnsupportedError for a name longer than any provider takes.
 */
export function flatNameOf(names: ToolNames, { namespace, name }: OwnName): string {
  if (namespace === undefined || namespace === "") return name;
  if (namespace.length > maxNameLength || name.length > maxNameLength) {
    throw new UnsupportedError(`names of tools and namespaces must have at most ${maxNameLength} characters`);
  }
  const key = keyOf(namespace, name);
  let flat = names.flatNames.get(key);
  if (flat === undefined) {
    flat = joinName(namespace, name, names.taken);
    names.flatNames.set(key, flat);
    names.ownNames.set(flat, { namespace, name });
    names.taken.add(flat);
  }
  return flat;
}

/** The name of a tool in this format, by its flat one. */
export const ownNameOf = ({ ownNames }: ToolNames, flat: string): OwnName => ownNames.get(flat) ?? { name: flat };

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Names the tools of a request; the same for the same tools, so that an answer's calls find back. */
export function nameTools(tools: unknown): ToolNames {
  const declared = listOf(tools);
  const isNamespace = (tool: unknown): boolean => member(tool, "type") === "namespace";
  const plain = declared.filter((tool) => !isNamespace(tool)).map((tool) => stringOf(member(tool, "name")) ?? "");
  const names: ToolNames = { flatNames: new Map(), ownNames: new Map(), taken: new Set(plain) };
  for (const group of declared.filter(isNamespace)) {
    const namespace = stringOf(member(group, "name"));
    for (const tool of listOf(member(group, "tools"))) {
      const name = stringOf(member(tool, "name"));
      if (namespace !== undefined && name !== undefined) flatNameOf(names, { namespace, name });
    }
    checkToolCount("tools", names.ownNames.size);
  }
  return names;
}

/** Flat names of all tools that a namespace declares, or of all declared ones of a name. */
export function flatNamesWhere(names: ToolNames, isMeant: (own: OwnName) => boolean): string[] {
  return [...names.ownNames].filter(([, own]) => isMeant(own)).map(([flat]) => flat);
}
