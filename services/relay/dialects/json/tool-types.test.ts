import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { member } from "../dialect.ts";
import { tellToolTypes } from "./tool-types.ts";

function typesOf(text: string): string[] {
  const types: string[] = [];
  tellToolTypes(Buffer.from(text), (type) => types.push(type));
  return types;
}

const rows: [string, string, string[]][] = [
  ["each tool", '[{"type":"function","name":"a"}, {"type" : "web_search" }]', ["function", "web_search"]],
  ["spelled with escapes", String.raw`[{"t\u0079pe":"web\u005fsearch"}]`, ["web_search"]],
  ["one that stands twice", '[{"type":"function","type":"web_search"}]', ["function", "web_search"]],
  [
    "tools of a namespace",
    '[{"tools":[{"type":"function"},{"type":"mcp"}],"type":"namespace"}]',
    ["function", "mcp", "namespace"],
  ],
  ["where a shell runs", '[{"type":"shell","environment":{"x":[1],"type":"local"}}]', ["shell", "environment.local"]],
  [
    "not those within schemas",
    '[{"parameters":{"type":"object","properties":{"type":{"type":"string"}}},"type":"function"}]',
    ["function"],
  ],
  ["not those within texts", String.raw`[{"description":"{\"type\":\"x\"}]","type":"function"}]`, ["function"]],
  ["what is no type", '[{"type":7},{"type":["web_search"]},{"type":null}]', ["", ""]],
  ["a type longer than any", `[{"type":"${"x".repeat(200)}"}]`, [""]],
  ["a tool that stands under its name", '[{"googleSearch":{}},{"google_maps":{}}]', ["googleSearch", "google_maps"]],
  ["one beside a function", '[{"type":"function","codeExecution":{}}]', ["function", "codeExecution"]],
  ["one that is on and off", '[{"web_search":{"enable":true,"enable":false}}]', ["web_search without search_result"]],
  ["no tools", "[]", []],
  [
    "a search of Zhipu's whose results are not shown",
    '[{"type":"web_search","web_search":{"search_query":"x","count":3}},{"web_search":{"search_result":false}}]',
    ["web_search", "web_search without search_result", "web_search without search_result"],
  ],
  [
    "one that shows them, and one that is off",
    '[{"type":"web_search","web_search":{"enable":"True","search_result":"True"}},{"web_search":{"enable":false}}]',
    ["web_search"],
  ],
  [
    "one that says both",
    '[{"web_search":{"search_result":true,"search_result":false}},{"web_search":{"search_result":false,"search_result":true}}]',
    ["web_search without search_result", "web_search without search_result"],
  ],
  ["tools that are none", '[1, "x", null, true, -1.5e+3, [{"type":"x"}], {}]', ["", "", "", "", "", ""]],
  ["a field that is no array", '{"type":"web_search"}', []],
  ["a namespace without tools", '[{"type":"namespace","tools":{"type":"x"},"environment":"x"}]', ["namespace"]],
];
for (const [what, text, types] of rows) {
  test(`types of tools: ${what}`, () => assert.deepEqual(typesOf(text), types));
}

test("a long number is skipped as one, so that one as large as a body holds nothing up", (context) => {
  const letters = context.mock.method(String, "fromCharCode");
  assert.deepEqual(typesOf(`[{"x":${"1".repeat(10_000)},"type":"mcp"}]`), ["mcp"]);
  assert.equal(letters.mock.callCount(), 0);
});

test("types are found behind long texts, wherever in memory the field stands", () => {
  const text = `[{"description":"${"words and \\n ".repeat(500)}","type":"web_search"}]`;
  for (let offset = 0; offset < 5; offset += 1) {
    const bytes = Buffer.from(`${" ".repeat(offset)}${text}`).subarray(offset);
    const types: string[] = [];
    tellToolTypes(bytes, (type) => types.push(type));
    assert.deepEqual(types, ["web_search"]);
  }
});

test("whatever tools are, their types are told as JSON.parse reads them", () => {
  const key = fc.constantFrom("type", "name", "tools", "environment", "a");
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue({ maxDepth: 1 }),
      fc.constantFrom("web_search", 'a"b\\c'),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 4 }),
    ),
  }));
  const isObject = (one: unknown): one is object => typeof one === "object" && one !== null && !Array.isArray(one);
  const typeOf = (found: unknown): string => (typeof found === "string" ? found : "");
  const expected = (tools: unknown): string[] =>
    (Array.isArray(tools) ? tools : []).flatMap((tool: unknown) => (isObject(tool) ? expectedOf(tool) : [""]));
  const expectedOf = (tool: object): string[] =>
    Object.entries(tool).flatMap(([name, held]: [string, unknown]): string[] => {
      if (name === "type") return held === null ? [] : [typeOf(held)];
      if (name === "tools") return expected(held);
      const isPlace = name === "environment" && (member(held, "type") ?? null) !== null;
      return isPlace ? [`environment.${typeOf(member(held, "type"))}`] : [];
    });
  const check = fc.property(value, fc.constantFrom(0, 2), (tools, indent) => {
    const text = JSON.stringify(tools, null, indent);
    assert.deepEqual(typesOf(text), expected(JSON.parse(text)));
  });
  fc.assert(check, { numRuns: 1_000 });
});
