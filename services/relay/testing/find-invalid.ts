import type { ObjectType, Shape } from "./declared-types.ts";

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a value is of the kind that the words of a type tell apart, such as `type`. */
function isOfKind(value: Record<string, unknown>, { fields }: ObjectType): boolean {
  return ["type", "object"].every((name) => {
    const field = fields.get(name);
    const { literals, primitives } = field?.shape() ?? { literals: [], primitives: new Set() };
    if (!field || literals.length === 0 || primitives.size > 0) return true;
    return value[name] === undefined ? !field.isRequired : literals.some((literal) => literal === value[name]);
  });
}

function findInObject(value: Record<string, unknown>, { fields }: ObjectType, path: string): string[] {
  return [...fields].flatMap(([name, { isRequired, shape }]) => {
    if (!Object.hasOwn(value, name)) return isRequired ? [`${path}.${name} is missing`] : [];
    return findInvalid(value[name], shape(), `${path}.${name}`);
  });
}

/**
 * Where a value is not what a type of an official client declares. Types do not tell here what may be null, and fields
 * that a type does not have are nobody's loss.
 */
export function findInvalid(value: unknown, shape: Shape, path: string): string[] {
  const { literals, primitives, elements, objects } = shape;
  if (value === null || primitives.has("unknown")) return [];
  if (Array.isArray(value)) {
    if (elements.length === 0) return [`${path} must not be a list`];
    return value.flatMap((one) => {
      const found = elements.map((element) => findInvalid(one, element, `${path}[]`));
      return found.find((problems) => problems.length === 0) ?? found[0] ?? [];
    });
  }
  if (!isObject(value)) {
    const isKnown = primitives.has(typeof value as "string") || literals.some((literal) => literal === value);
    return isKnown ? [] : [`${path} must not be ${JSON.stringify(value)}`];
  }
  const alike = objects.filter((object) => isOfKind(value, object));
  if (alike.length === 0) return [`${path} is of no kind that is known`];
  const found = alike.map((object) => findInObject(value, object, path));
  return found.find((problems) => problems.length === 0) ?? found[0] ?? [];
}
