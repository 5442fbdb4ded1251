import type { Field, ObjectType, Shape } from "./declared-types.ts";

// Every field of a request that the official clients' types know, alone: two values that differ in nothing but it.

/** A value with the field, and the same without it or with another value of it. */
export type FieldPair = { path: string; with: unknown; without: unknown };

/** Values that say something, by the names of their fields; two, where the field cannot be left out. */
const strings: Record<string, readonly [string, string]> = {
  url: ["https://example.com/a.png", "https://example.com/b.png"],
  file_url: ["https://example.com/a.pdf", "https://example.com/b.pdf"],
  image_url: ["data:image/png;base64,AAAA", "data:image/png;base64,BBBB"],
  file_data: ["data:application/pdf;base64,AAAA", "data:application/pdf;base64,BBBB"],
  data: ["AAAA", "BBBB"],
  arguments: [`{"at":1}`, `{"at":2}`],
  tool_call_id: ["call_1", "call_2"],
  call_id: ["call_1", "call_2"],
  tool_use_id: ["call_1", "call_2"],
  signature: ["c2ln", "bmF0"],
  effort: ["low", "high"],
};
const numbers: Record<string, readonly [number, number]> = {
  temperature: [0.5, 0.7],
  top_p: [0.5, 0.7],
  budget_tokens: [2_048, 4_096],
  max_tokens: [9_000, 8_000],
  max_completion_tokens: [9_000, 8_000],
  max_output_tokens: [9_000, 8_000],
  n: [2, 3],
};
const schemas = new Set(["parameters", "schema", "input_schema", "output_schema"]);

/** Something of the kind for a field of this name; `turn` 0 or 1 for one or another. */
function sampleOf(shape: Shape, name: string, turn: 0 | 1, within: readonly string[]): unknown {
  const literal = shape.literals[turn] ?? shape.literals[0];
  if (shape.primitives.has("string")) return (strings[name] ?? [`${name}-a`, `${name}-b`])[turn];
  if (literal !== undefined) return literal;
  if (shape.primitives.has("number")) return (numbers[name] ?? [3, 4])[turn];
  if (shape.primitives.has("boolean")) return turn === 0;
  const [object] = shape.objects;
  if (object) return objectSample(object, name, turn, within);
  if (shape.elements.length > 0) return [sampleOf(shape.elements[0] as Shape, name, turn, within)];
  return schemas.has(name) ? { type: "object", properties: { at: { type: "number" } } } : { at: turn };
}

function objectSample(object: ObjectType, name: string, turn: 0 | 1, within: readonly string[]): object {
  if (object.isOpen && object.fields.size === 0) {
    return schemas.has(name)
      ? { type: "object", properties: { [`at${turn}`]: { type: "number" } } }
      : { at: `${turn}` };
  }
  if (within.filter((one) => one === object.name).length > 1) return {};
  const required = [...object.fields].filter(([, field]) => field.isRequired);
  const inner = [...within, object.name];
  return Object.fromEntries(required.map(([field, { shape }]) => [field, sampleOf(shape(), field, turn, inner)]));
}

/** The word by which objects of one field are told apart. */
function kindOf(object: ObjectType): string {
  for (const name of ["type", "role"]) {
    const literals = object.fields.get(name)?.shape().literals ?? [];
    if (literals.length > 0) return literals.join("|");
  }
  return object.name;
}

const only = (shape: Partial<Shape>): Shape => ({
  literals: [],
  primitives: new Set(),
  elements: [],
  objects: [],
  ...shape,
});

/** What a value may be, one after the other, by names. */
function alternatives(shape: Shape): { label: string; shape: Shape }[] {
  const { literals, primitives, elements, objects } = shape;
  return [
    ...literals.map((literal) => ({ label: `=${literal}`, shape: only({ literals: [literal] }) })),
    ...(primitives.has("boolean") ? [true, false] : []).map((literal) => ({
      label: `=${literal}`,
      shape: only({ literals: [literal] }),
    })),
    ...[...primitives]
      .filter((primitive) => primitive !== "boolean")
      .map((primitive) => ({ label: "", shape: only({ primitives: new Set([primitive]) }) })),
    ...elements.map((element) => ({ label: "[]", shape: only({ elements: [element] }) })),
    ...objects.map((object) => ({
      label: objects.length > 1 ? `(${kindOf(object)})` : "",
      shape: only({ objects: [object] }),
    })),
  ];
}

/** Pairs within a value. */
function pairsIn(shape: Shape, name: string, within: readonly string[]): FieldPair[] {
  const [object] = shape.objects;
  if (object && !within.includes(object.name)) return objectPairs(object, name, within);
  const [element] = shape.elements;
  if (!element) return [];
  return alternatives(element).flatMap(({ label, shape: one }) => {
    const value = sampleOf(one, name, 0, within);
    const inner = pairsIn(one, name, within).map((pair) => ({
      path: `${label}${pair.path}`,
      with: [pair.with],
      without: [pair.without],
    }));
    return [{ path: label, with: [value], without: [] }, ...inner];
  });
}

/** Pairs of one field, beside what an object of its type must have. */
function fieldPairs(name: string, field: Field, least: object, within: readonly string[]): FieldPair[] {
  const shape = field.shape();
  return alternatives(shape).flatMap(({ label, shape: one }): FieldPair[] => {
    const set = (value: unknown): object => ({ ...least, [name]: value });
    const path = `${name}${label}`;
    const isFixed = field.isRequired && (shape.literals.length === 1 || one.objects.length + one.elements.length > 0);
    const value = sampleOf(one, name, 0, within);
    const other = shape.primitives.has("boolean") ? !value : shape.literals.find((literal) => literal !== value);
    const without = field.isRequired ? set(one.literals.length > 0 ? other : sampleOf(one, name, 1, within)) : least;
    const own = isFixed ? [] : [{ path, with: set(value), without }];
    const inner = pairsIn(one, name, within).map((pair) => ({
      path: `${path}.${pair.path}`.replaceAll(".(", "("),
      with: set(pair.with),
      without: set(pair.without),
    }));
    return [...own, ...inner];
  });
}

function objectPairs(object: ObjectType, name: string, within: readonly string[]): FieldPair[] {
  const least = objectSample(object, name, 0, within);
  const inner = [...within, object.name];
  return [...object.fields].flatMap(([field, declared]) => fieldPairs(field, declared, least, inner));
}

/** Pairs of all fields of a request, each beside a request that is valid without it. */
export function requestPairs(root: ObjectType, base: Record<string, unknown>): FieldPair[] {
  return [...root.fields].flatMap(([name, field]) =>
    fieldPairs(name, { ...field, isRequired: false }, base, [root.name]).filter(
      ({ path }) => !path.startsWith("model"),
    ),
  );
}
