// What the provider's schemas of answers know, by its documentation; the rest it refuses.
const formats = new Set<unknown>([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "uri",
  "ipv4",
  "ipv6",
  "uuid",
]);

// Constraints that are refused; the model is told of them in words.
const wordedKeywords = new Set([
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minLength",
  "maxLength",
  "pattern",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minProperties",
  "maxProperties",
  "patternProperties",
  "propertyNames",
  "not",
  "contains",
]);

const schemaMaps = new Set(["properties", "$defs", "definitions"]);
const schemaLists = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);

type Schema = Record<string, unknown>;

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isObjectType = (type: unknown): boolean => type === "object" || (Array.isArray(type) && type.includes("object"));

function writeKeyword(name: string, value: unknown): [string, unknown] {
  if (schemaMaps.has(name) && isSchema(value)) {
    return [name, Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, writeNode(inner)]))];
  }
  if (schemaLists.has(name) && Array.isArray(value)) return [name === "oneOf" ? "anyOf" : name, value.map(writeNode)];
  return [name, name === "items" ? writeNode(value) : value];
}

function isWorded(name: string, value: unknown): boolean {
  if (name === "format") return !formats.has(value);
  // The provider takes the two numbers that ask for a list or a filled one.
  if (name === "minItems") return value !== 0 && value !== 1;
  return wordedKeywords.has(name);
}

function writeNode(node: unknown): unknown {
  if (!isSchema(node)) return node;
  const written: Schema = {};
  const words: string[] = [];
  for (const [name, value] of Object.entries(node)) {
    if (isWorded(name, value)) words.push(`${name}: ${JSON.stringify(value)}`);
    else if (name !== "additionalProperties") {
      const [key, inner] = writeKeyword(name, value);
      written[key] = inner;
    }
  }
  if (words.length > 0) {
    const told = typeof written["description"] === "string" ? `${written["description"]}\n` : "";
    written["description"] = `${told}{${words.join(", ")}}`;
  }
  if (isObjectType(written["type"]) || "properties" in written) written["additionalProperties"] = false;
  return written;
}

/** The schema of an answer as the provider takes it: objects are closed, and refused constraints become words. */
export const writeSchema = (schema: unknown): unknown => writeNode(schema ?? {});
