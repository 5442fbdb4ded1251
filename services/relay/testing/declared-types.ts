import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  parseSync,
  type Class,
  type Declaration,
  type Statement,
  type TSEnumDeclaration,
  type TSInterfaceDeclaration,
  type TSSignature,
  type TSType,
  type TSTypeAliasDeclaration,
  type TSTypeName,
} from "oxc-parser";

// What the official clients declare of requests and answers, as far as tests need to know it.

/** What a value may be. */
export type Shape = {
  literals: (string | number | boolean)[];
  primitives: Set<"string" | "number" | "boolean" | "unknown">;
  /** What elements of lists may be. */
  elements: Shape[];
  objects: ObjectType[];
};

export type ObjectType = { name: string; fields: Map<string, Field>; isOpen: boolean };

export type Field = { isRequired: boolean; shape: () => Shape };

/** Where names mean something: a file, or a namespace within it. */
type Scope = { names: Map<string, Named>; parent: Scope | undefined; file: string };

type TypeNode = TSInterfaceDeclaration | TSTypeAliasDeclaration | TSEnumDeclaration | Class;

type Named = { type?: TypeNode; inner?: Scope; from?: { source: string; name: string | undefined } };

const none = (): Shape => ({ literals: [], primitives: new Set(), elements: [], objects: [] });
const unknown = (): Shape => ({ ...none(), primitives: new Set(["unknown"]) });

function merge(shapes: Shape[]): Shape {
  return {
    literals: [...new Set(shapes.flatMap(({ literals }) => literals))],
    primitives: new Set(shapes.flatMap(({ primitives }) => [...primitives])),
    elements: shapes.flatMap(({ elements }) => elements),
    objects: shapes.flatMap(({ objects }) => objects),
  };
}

function named(scope: Scope, name: string): Named {
  let found = scope.names.get(name);
  if (!found) scope.names.set(name, (found = {}));
  return found;
}

function declare(scope: Scope, declaration: Declaration): void {
  switch (declaration.type) {
    case "TSInterfaceDeclaration":
    case "TSTypeAliasDeclaration":
    case "TSEnumDeclaration":
      named(scope, declaration.id.name).type = declaration;
      return;
    case "ClassDeclaration":
      if (declaration.id) named(scope, declaration.id.name).type = declaration;
      return;
    case "TSModuleDeclaration": {
      if (declaration.id.type !== "Identifier") return;
      const entry = named(scope, declaration.id.name);
      entry.inner ??= { names: new Map(), parent: scope, file: scope.file };
      if (declaration.body?.type === "TSModuleBlock") readStatements(entry.inner, declaration.body.body);
      return;
    }
    default:
  }
}

function readStatements(scope: Scope, statements: readonly (Statement | Declaration)[]): void {
  for (const statement of statements) {
    if (statement.type === "ImportDeclaration") {
      for (const specifier of statement.specifiers) {
        const isPart = specifier.type === "ImportSpecifier";
        const name = isPart && specifier.imported.type === "Identifier" ? specifier.imported.name : undefined;
        named(scope, specifier.local.name).from = { source: statement.source.value, name };
      }
    } else if (statement.type === "ExportNamedDeclaration") {
      if (statement.declaration) declare(scope, statement.declaration);
    } else declare(scope, statement as Declaration);
  }
}

const files = new Map<string, Scope>();

function readFile(file: string): Scope {
  let scope = files.get(file);
  if (!scope) {
    files.set(file, (scope = { names: new Map(), parent: undefined, file }));
    readStatements(scope, parseSync(file, readFileSync(file, "utf8")).program.body);
  }
  return scope;
}

/** A name, and the scope that its declaration sees. */
type Found = { entry: Named; home: Scope };

/** What a name means that may be imported; undefined where another package declares it. */
function follow({ entry, home }: Found): Found | undefined {
  if (!entry.from) return { entry, home };
  const { source, name } = entry.from;
  if (!source.startsWith(".")) return undefined;
  const file = readFile(join(dirname(home.file), `${source.replace(/\.m?js$/, "")}.d.ts`));
  return name === undefined ? { entry: { inner: file }, home: file } : lookUp(file, [name]);
}

function lookWithin(found: Found | undefined, path: readonly string[]): Found | undefined {
  let at = found;
  for (const name of path) {
    const home = at?.entry.inner;
    const entry = home?.names.get(name);
    at = home && entry && follow({ entry, home });
  }
  return at;
}

/** What a dotted name means here. */
function lookUp(scope: Scope, [first = "", ...rest]: readonly string[]): Found | undefined {
  for (let home: Scope | undefined = scope; home; home = home.parent) {
    const entry = home.names.get(first);
    const found = entry && lookWithin(follow({ entry, home }), rest);
    if (found) return found;
  }
  return undefined;
}

const namesOf = (name: TSTypeName): string[] => {
  if (name.type === "TSQualifiedName") return [...namesOf(name.left), name.right.name];
  return name.type === "Identifier" ? [name.name] : [];
};

type Members = readonly (TSSignature | { type: string })[];

function objectOf(name: string, members: Members, scope: Scope): ObjectType {
  const fields = new Map<string, Field>();
  let isOpen = false;
  for (const member of members) {
    if (member.type === "TSIndexSignature") isOpen = true;
    if (member.type !== "TSPropertySignature" && member.type !== "PropertyDefinition") continue;
    const { key, optional, typeAnnotation } = member as Extract<TSSignature, { type: "TSPropertySignature" }>;
    const field = key.type === "Identifier" ? key.name : key.type === "Literal" ? String(key.value) : undefined;
    if (field === undefined || !typeAnnotation) continue;
    fields.set(field, { isRequired: !optional, shape: () => shapeOf(typeAnnotation.typeAnnotation, scope) });
  }
  return { name, fields, isOpen };
}

function declaredShape(name: string, node: TypeNode, scope: Scope): Shape {
  if (node.type === "TSTypeAliasDeclaration") return shapeOf(node.typeAnnotation, scope);
  if (node.type === "TSEnumDeclaration") {
    const literals = node.body.members.flatMap(({ initializer }) =>
      initializer?.type === "Literal" && typeof initializer.value === "string" ? [initializer.value] : [],
    );
    return { ...none(), literals };
  }
  const own = objectOf(name, node.body.body, scope);
  const parents = node.type === "TSInterfaceDeclaration" ? node.extends : [];
  for (const { expression } of parents) {
    const path = dotted(expression);
    const [parent] = referenced(path, scope).objects;
    for (const [field, value] of parent?.fields ?? []) if (!own.fields.has(field)) own.fields.set(field, value);
  }
  return { ...none(), objects: [own] };
}

function dotted(expression: { type: string }): string[] {
  const { name, object, property } = expression as unknown as {
    name?: string;
    object?: { type: string };
    property?: { name: string };
  };
  return object && property ? [...dotted(object), property.name] : [name ?? ""];
}

function referenced(path: readonly string[], scope: Scope): Shape {
  const found = lookUp(scope, path);
  return found?.entry.type ? declaredShape(path.at(-1) ?? "", found.entry.type, found.home) : unknown();
}

function withoutFields({ objects, ...others }: Shape, names: ReadonlySet<unknown>): Shape {
  const left = objects.map((object) => ({
    ...object,
    fields: new Map([...object.fields].filter(([name]) => !names.has(name))),
  }));
  return { ...others, objects: left };
}

function referenceShape(node: Extract<TSType, { type: "TSTypeReference" }>, scope: Scope): Shape {
  const path = namesOf(node.typeName);
  const [first, second] = node.typeArguments?.params ?? [];
  switch (path.join(".")) {
    case "Array":
    case "ReadonlyArray":
      return { ...none(), elements: first ? [shapeOf(first, scope)] : [] };
    case "Record":
      return { ...none(), objects: [{ name: "Record", fields: new Map(), isOpen: true }] };
    case "Omit":
      return first && second
        ? withoutFields(shapeOf(first, scope), new Set(shapeOf(second, scope).literals))
        : unknown();
    default:
      return referenced(path, scope);
  }
}

function intersection(shapes: Shape[]): Shape {
  const whole = merge(shapes);
  if (whole.primitives.size > 0) return { ...whole, objects: [] };
  const fields = new Map(whole.objects.flatMap((object) => [...object.fields]));
  return { ...whole, objects: [{ name: whole.objects[0]?.name ?? "", fields, isOpen: false }] };
}

function shapeOf(node: TSType, scope: Scope): Shape {
  switch (node.type) {
    case "TSUnionType":
      return merge(node.types.map((type) => shapeOf(type, scope)));
    case "TSIntersectionType":
      return intersection(node.types.map((type) => shapeOf(type, scope)));
    case "TSParenthesizedType":
    case "TSTypeOperator":
      return shapeOf(node.typeAnnotation, scope);
    case "TSArrayType":
      return { ...none(), elements: [shapeOf(node.elementType, scope)] };
    case "TSTypeLiteral":
      return { ...none(), objects: [objectOf("", node.members, scope)] };
    case "TSTypeReference":
      return referenceShape(node, scope);
    case "TSLiteralType": {
      const value = node.literal.type === "Literal" ? node.literal.value : undefined;
      const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
      return isPlain ? { ...none(), literals: [value] } : none();
    }
    case "TSStringKeyword":
      return { ...none(), primitives: new Set(["string"]) };
    case "TSNumberKeyword":
      return { ...none(), primitives: new Set(["number"]) };
    case "TSBooleanKeyword":
      return { ...none(), primitives: new Set(["boolean"]) };
    case "TSNullKeyword":
    case "TSUndefinedKeyword":
      return none();
    default:
      return unknown();
  }
}

/** What a type of a declaration file may be, by its dotted name. */
export function readType(file: string, name: string): Shape {
  const shape = referenced(name.split("."), readFile(file));
  if (shape.primitives.has("unknown")) throw new Error(`there is no type ${name}`);
  return shape;
}

function pathsOf(shape: Shape, within: readonly string[]): string[] {
  return [
    ...shape.elements.flatMap((element) => pathsOf(element, within)),
    ...shape.objects.flatMap((object) => {
      if (within.includes(object.name)) return [];
      return [...object.fields].flatMap(([name, field]) => {
        const inner = pathsOf(field.shape(), [...within, object.name]);
        return inner.length === 0 ? [name] : inner.map((path) => `${name}.${path}`);
      });
    }),
  ];
}

/** Paths of all fields of a type, its parts' too; of a list those of its elements. */
export function typeFields(file: string, name: string): string[] {
  return [...new Set(pathsOf(readType(file, name), []))];
}
