import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { UnsupportedError } from "../conversation.ts";
import { reduceSchema } from "./schema.ts";

const reduce = (schema: unknown): unknown => reduceSchema(schema).schema;

test("trap 27 (type arrays): null beside one type stays, other lists become a choice with each type's keywords", () => {
  assert.deepEqual(reduce({ type: ["string", "null"] }), { type: ["string", "null"] });
  assert.deepEqual(reduce({ type: ["integer"] }), { type: "integer" });
  const schema = { description: "d", type: ["array", "string", "null"], items: { type: "string" }, format: "date" };
  assert.deepEqual(reduce(schema), {
    description: "d",
    anyOf: [{ type: "array", items: { type: "string" } }, { type: "string", format: "date" }, { type: "null" }],
  });
});

test("trap 27 ($ref/$defs): references go into $defs, from wherever they pointed, with nothing beside them", () => {
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    properties: {
      home: { $ref: "#/definitions/Place", description: "where", default: null },
      work: { $ref: "#/definitions/Place" },
      parent: { $ref: "#" },
      first: { $ref: "#/properties/work/x~1y" },
      away: { $ref: "https://example.com/schema" },
    },
    definitions: { Place: { type: "object", properties: { next: { $ref: "#/definitions/Place" } } } },
  };
  const place = { $ref: "#/$defs/Place" };
  const reduced = reduceSchema(schema).schema;
  assert.deepEqual(reduced["$defs"], {
    Place: { type: "object", properties: { next: place } },
    _: { type: "object", properties: reduced["properties"] },
  });
  assert.deepEqual(reduced["properties"], {
    home: { description: "where", anyOf: [place] },
    work: place,
    parent: { $ref: "#/$defs/_" },
    first: { description: 'Constraints: {"$ref":"#/properties/work/x~1y"}' },
    away: { description: 'Constraints: {"$ref":"https://example.com/schema"}' },
  });
  assert.ok(!("$schema" in reduced || "definitions" in reduced));
});

test("trap 27: names of definitions that clash or are odd keep apart", () => {
  const schema = {
    anyOf: [{ $ref: "#/$defs/A" }, { $ref: "#/definitions/A" }, { $ref: "#/$defs/List%3CA%3E" }, { $ref: "#/$defs/" }],
    $defs: { A: { type: "string" }, "List<A>": { type: "array" }, "": { type: "null" } },
    definitions: { A: { type: "number" } },
  };
  const reduced = reduceSchema(schema).schema;
  assert.deepEqual(
    (reduced["anyOf"] as { $ref: string }[]).map(({ $ref }) => $ref.replace("#/$defs/", "")),
    ["A", "A_1", "List_A_", "_"],
  );
  assert.deepEqual(reduced["$defs"], {
    A: { type: "string" },
    A_1: { type: "number" },
    List_A_: { type: "array" },
    _: { type: "null" },
  });
});

test("trap 27 (additionalProperties, const): the first is known to the JSON-schema field, const becomes enum", () => {
  const schema = {
    type: "object",
    properties: { kind: { const: "a" }, more: { type: "object", additionalProperties: { const: 1 } } },
    additionalProperties: false,
    required: ["kind"],
  };
  assert.deepEqual(reduce(schema), {
    type: "object",
    properties: { kind: { enum: ["a"] }, more: { type: "object", additionalProperties: { enum: [1] } } },
    additionalProperties: false,
    required: ["kind"],
  });
});

test("trap 27 (anyOf beside other keys): the type goes into the choices, structure beside it wins and it is told", () => {
  assert.deepEqual(reduce({ type: "object", description: "d", oneOf: [{ required: ["a"] }, { type: "null" }] }), {
    description: "d",
    anyOf: [{ type: "object", required: ["a"] }, { type: "null" }],
  });
  const beside = { type: "object", properties: { a: {}, b: {} }, anyOf: [{ required: ["a"] }, { required: ["b"] }] };
  assert.deepEqual(reduceSchema(beside), {
    schema: {
      type: "object",
      properties: { a: {}, b: {} },
      description: 'Constraints: {"anyOf":[{"required":["a"]},{"required":["b"]}]}',
    },
    isLoose: true,
  });
});

test("allOf is merged, with what it refers to", () => {
  const $defs = { Base: { type: "object", properties: { id: { type: "string" } }, required: ["id"] } };
  const own = { properties: { name: { type: "string" } }, required: ["name"] };
  assert.deepEqual(reduce({ allOf: [{ $ref: "#/$defs/Base" }, own], $defs }), {
    type: "object",
    properties: { id: { type: "string" }, name: { type: "string" } },
    required: ["id", "name"],
  });
  const single = { type: "object", properties: { base: { allOf: [{ $ref: "#/$defs/Base" }], title: "t" } }, $defs };
  assert.deepEqual(reduce(single), {
    type: "object",
    properties: { base: { $ref: "#/$defs/Base" } },
    $defs: { Base: $defs.Base },
  });
  const through = {
    allOf: [{ $ref: "#/$defs/Named" }, own],
    $defs: { ...$defs, Named: { allOf: [{ $ref: "#/$defs/Base" }], title: "t" } },
  };
  assert.deepEqual(reduce(through), {
    type: "object",
    title: "t",
    properties: { id: { type: "string" }, name: { type: "string" } },
    required: ["id", "name"],
  });
  assert.throws(() => reduce({ allOf: [{ $ref: "#" }], title: "" }), UnsupportedError);
  const circle = { allOf: [{ $ref: "#/$defs/A" }, {}], $defs: { A: { allOf: [{ $ref: "#/$defs/A" }, {}] } } };
  assert.throws(() => reduce(circle), UnsupportedError);
});

test("keywords outside the subset are told in the description, and make the schema looser", () => {
  assert.deepEqual(reduceSchema({ type: "string", description: "d", pattern: "^a", minLength: 2, format: "email" }), {
    schema: { type: "string", description: 'd\nConstraints: {"pattern":"^a","minLength":2,"format":"email"}' },
    isLoose: true,
  });
  assert.deepEqual(reduceSchema({ type: "string", format: "date-time", examples: ["x"], deprecated: true }), {
    schema: { type: "string", format: "date-time" },
    isLoose: false,
  });
});

test("lists by place are prefixItems; properties may be named like keywords; booleans are schemas", () => {
  assert.deepEqual(reduce({ type: "array", items: [{ type: "string" }, true] }), {
    type: "array",
    prefixItems: [{ type: "string" }, {}],
  });
  const odd = JSON.parse('{"type":"object","properties":{"type":{"const":1},"$ref":{"type":"string"},"__proto__":{}}}');
  assert.deepEqual(
    JSON.stringify(reduce(odd)),
    '{"type":"object","properties":{"type":{"enum":[1]},"$ref":{"type":"string"},"__proto__":{}}}',
  );
});

test("a schema that is too large or too deep is refused, in little time", () => {
  let deep: object = {};
  for (let level = 0; level < 100; level += 1) deep = { items: deep };
  assert.throws(() => reduce(deep), UnsupportedError);
  // Each name doubles the work of the one before it.
  const $defs = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => [
      `n${at}`,
      { allOf: [{ $ref: `#/$defs/n${at + 1}` }, { $ref: `#/$defs/n${at + 1}` }] },
    ]),
  );
  assert.throws(() => reduce({ allOf: [{ $ref: "#/$defs/n0" }, {}], $defs }), UnsupportedError);
  const properties = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`p${at}`, {}]));
  const repeated = Array.from({ length: 500 }, () => ({ $ref: "#/$defs/wide" }));
  assert.throws(() => reduce({ allOf: repeated, $defs: { wide: { properties } } }), UnsupportedError);
});

const allowedKeys = new Set(
  [
    ["$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems"],
    ["maxItems", "minimum", "maximum", "anyOf", "properties", "additionalProperties", "required", "propertyOrdering"],
  ].flat(),
);

function checkSubset(schema: unknown): void {
  if (typeof schema !== "object" || schema === null) return;
  const node = schema as Record<string, unknown>;
  for (const key of Object.keys(node)) assert.ok(allowedKeys.has(key), key);
  if ("$ref" in node) assert.deepEqual(Object.keys(node), ["$ref"]);
  const maps = [node["properties"], node["$defs"]].flatMap((map) => Object.values((map ?? {}) as object) as unknown[]);
  const lists = [node["anyOf"], node["prefixItems"]].flatMap((list) => (Array.isArray(list) ? list : []) as unknown[]);
  for (const below of [...maps, ...lists, node["items"], node["additionalProperties"]]) checkSubset(below);
}

test("whatever the schema, what is written is within the subset", () => {
  const { schema } = fc.letrec((tie) => {
    const below = tie("schema");
    const two = fc.array(below, { maxLength: 2 });
    const leaf = fc.oneof(
      fc.constantFrom<object>(
        { $ref: "#/$defs/a" },
        { $ref: "#/properties/b", title: "t" },
        { $ref: "#" },
        { $ref: "x" },
      ),
      fc.record({ type: fc.constantFrom<unknown>("string", ["string", "array", "null"]), format: fc.string() }),
      fc.record({ const: fc.jsonValue(), description: fc.string() }),
    );
    const names = { a: below, b: below };
    const node = fc.oneof(
      fc.record({ type: fc.constant("object"), properties: fc.record(names), not: fc.jsonValue() }),
      fc.record({ $defs: fc.record(names), properties: fc.record(names), oneOf: two }),
      fc.record({ items: fc.oneof(below, two), minItems: fc.nat() }),
      fc.record({ allOf: two, title: fc.string() }),
      fc.record({ type: fc.constant("object"), allOf: two, anyOf: two }),
      fc.record({ anyOf: two, description: fc.string() }),
      fc.record({ type: fc.constant("object"), additionalProperties: fc.oneof(fc.boolean(), below) }),
    );
    return { schema: fc.oneof({ maxDepth: 3, depthIdentifier: "schema" }, leaf, node) };
  });
  fc.assert(
    fc.property(schema, (given) => {
      try {
        checkSubset(reduce(given));
      } catch (error) {
        if (!(error instanceof UnsupportedError)) throw error;
      }
    }),
    { numRuns: 1000, examples: [[{ allOf: [{ $ref: "#" }], title: "" }]] },
  );
  fc.assert(fc.property(fc.anything(), (given) => void reduce(given)));
});
