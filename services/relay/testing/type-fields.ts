const comments = /\/\*[^]*?\*\/|\/\/.*$/gm;

/** What stands between the braces that open at or behind this place. */
function bodyAt(text: string, from: number): string {
  const begin = text.indexOf("{", from);
  let depth = 0;
  for (let at = begin; at < text.length; at += 1) {
    if (text[at] === "{") depth += 1;
    else if (text[at] === "}") depth -= 1;
    if (depth === 0) return text.slice(begin + 1, at);
  }
  throw new Error("a brace is not closed");
}

function bodyOf(scope: string, kind: "interface" | "namespace", name: string): string | undefined {
  const found = new RegExp(`\\b${kind} ${name} (?:extends [\\w., ]+)?\\{`).exec(scope);
  return found ? bodyAt(scope, found.index) : undefined;
}

/** The body of a type by its dotted name, as seen from the innermost of these scopes, and the scopes that it sees. */
function find(scopes: readonly string[], name: string): { body: string; scopes: string[] } | undefined {
  const names = name.split(".");
  const last = names.pop() ?? "";
  for (let depth = scopes.length; depth > 0; depth -= 1) {
    const seen = scopes.slice(0, depth);
    for (const outer of names) seen.push(bodyOf(seen.at(-1) ?? "", "namespace", outer) ?? "");
    const scope = seen.at(-1) ?? "";
    const body = bodyOf(scope, "interface", last);
    if (body !== undefined) return { body, scopes: [...seen, bodyOf(scope, "namespace", last) ?? ""] };
  }
  return undefined;
}

const alias = (text: string, name: string): string | undefined =>
  new RegExp(`\\btype ${name} = ([^;]+);`).exec(text)?.[1];

const property = /^\s*(\w+)\??: ([^;]+);/gm;

/** The types of the same file that a property's may be: of an array those of its elements. */
function partsOf(text: string, type: string): string[] {
  return type.split("|").flatMap((one) => {
    const name = /^(?:Array<)?([\w.]+)>?$/.exec(one.trim())?.[1];
    if (name === undefined) return one.includes("Array<") ? partsOf(text, one.replaceAll(/Array<|>/g, "")) : [];
    const meant = alias(text, name);
    return meant === undefined ? [name] : partsOf(text, meant.replaceAll(/Array<|>/g, ""));
  });
}

function fieldsOf(text: string, { body, scopes }: { body: string; scopes: string[] }): string[] {
  return [...body.matchAll(property)].flatMap(([, name = "", type = ""]) => {
    const inner = partsOf(text, type).flatMap((part) => {
      const found = find(scopes, part);
      return found ? fieldsOf(text, found) : [];
    });
    return inner.length === 0 ? [name] : inner.map((path) => `${name}.${path}`);
  });
}

/** Paths of all fields of a type, its parts' too, in the text of a declaration file. */
export function typeFields(source: string, name: string): string[] {
  const text = source.replaceAll(comments, "");
  const found = find([text], name);
  if (!found) throw new Error(`there is no type ${name}`);
  return [...new Set(fieldsOf(text, found))];
}
