import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { efforts, type Conversation, type Quirk, type Reasoning, type Tool } from "../conversation.ts";
import { UnsupportedError } from "../conversation.ts";
import { readName, writeName } from "./names.ts";
import { writeRequest } from "./write-request.ts";

type Fields = Record<string, unknown>;

const asking = (more: Partial<Conversation>): Conversation => ({
  turns: [{ role: "user", parts: [{ kind: "text", text: "hi" }] }],
  tools: [],
  stopSequences: [],
  isStream: false,
  wantsStreamUsage: false,
  ...more,
});
const write = (more: Partial<Conversation>, model = "gemini-3-flash", ...quirks: Quirk[]) =>
  writeRequest(asking(more), { model, maxOutputTokens: 65_536, quirks: new Set(quirks) });
const generationOf = (...given: Parameters<typeof write>): Fields =>
  (write(...given).body["generationConfig"] ?? {}) as Fields;
const lossesOf = (...given: Parameters<typeof write>): string[] => [...write(...given).losses];

const tool = (name: string, more: Partial<Tool> = {}): Tool => ({ name, ...more });
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

test("trap 31 and the sampling fields: each one goes to its place", () => {
  const given = {
    maxOutputTokens: 100,
    temperature: 0,
    topP: 0.5,
    topK: 3,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    seed: 7,
    choices: 2,
    stopSequences: ["a"],
  };
  const { body, losses } = write(given);
  const { choices, ...same } = given;
  assert.deepEqual(body["generationConfig"], { ...same, candidateCount: choices });
  assert.equal(losses.size, 0);
  assert.ok(!("generationConfig" in write({}).body));
  assert.equal(generationOf({ maxOutputTokens: 1_000_000 })["maxOutputTokens"], 65_536);
});

test("what Gemini has no field for is named", () => {
  assert.deepEqual(lossesOf({ topLogprobs: 0, verbosity: "low", endUser: "u" }), ["logprobs", "verbosity", "endUser"]);
  const { body, losses } = write({ stopSequences: ["1", "2", "3", "4", "5", "6"], seed: 2 ** 40 });
  assert.deepEqual(body["generationConfig"], { stopSequences: ["1", "2", "3", "4", "5"] });
  assert.deepEqual([...losses].toSorted(), ["seed", "stopSequences"]);
});

test("quirks and generations: sampling where it is refused, penalties on 2.5", () => {
  const sampling = { temperature: 1, topP: 1, topK: 1 };
  assert.deepEqual(generationOf(sampling, "gemini-4-x", "no-sampling"), {});
  assert.deepEqual(lossesOf(sampling, "gemini-4-x", "no-sampling"), ["temperature", "topP", "topK"]);
  const penalties = { presencePenalty: 0.5, frequencyPenalty: 0 };
  assert.deepEqual(generationOf(penalties, "gemini-2.5-flash"), {});
  assert.deepEqual(lossesOf(penalties, "gemini-2.5-flash"), ["presencePenalty"]);
});

test("tools are function declarations with JSON schemas, in their order, empty inputs left out", () => {
  const tools = [tool("b", { description: "d", schema }), tool("a", { schema: { type: "object", properties: {} } })];
  const { body, losses } = write({ tools: [...tools, tool("9lives", { cache: { ttl: "1h" } })] });
  assert.deepEqual(body["tools"], [
    {
      functionDeclarations: [
        { name: "b", description: "d", parametersJsonSchema: schema },
        { name: "a" },
        { name: "_relay.9lives" },
      ],
    },
  ]);
  assert.deepEqual(body["toolConfig"], { functionCallingConfig: { mode: "AUTO" } });
  assert.deepEqual([...losses], ["cache"]);
});

test("free-text tools take one text, and are told a grammar in words", () => {
  const grammar = { type: "grammar", grammar: { syntax: "lark", definition: "start: x" } };
  const { body, losses } = write({ tools: [tool("patch", { isFreeText: true, schema: grammar })] });
  const input = { type: "string", description: `Text of this format: ${JSON.stringify(grammar)}` };
  const parametersJsonSchema = { type: "object", properties: { input }, required: ["input"] };
  assert.deepEqual(body["tools"], [{ functionDeclarations: [{ name: "_relaytext.patch", parametersJsonSchema }] }]);
  assert.deepEqual([...losses], ["toolStrictness"]);
});

test("trap 29 (tool_choice, allowed_tools and parallel_tool_calls get lost): each has its mode or is named", () => {
  const tools = [tool("f"), tool("7g")];
  const configOf = (more: Partial<Conversation>): unknown =>
    (write({ tools, ...more }).body["toolConfig"] as Fields)["functionCallingConfig"];
  assert.deepEqual(configOf({ toolChoice: { kind: "none" } }), { mode: "NONE" });
  assert.deepEqual(configOf({ toolChoice: { kind: "required" } }), { mode: "ANY" });
  assert.deepEqual(configOf({ toolChoice: { kind: "required", names: ["7g"] } }), {
    mode: "ANY",
    allowedFunctionNames: ["_relay.7g"],
  });
  assert.deepEqual(configOf({ toolChoice: { kind: "auto", names: ["f"] } }), {
    mode: "VALIDATED",
    allowedFunctionNames: ["f"],
  });
  assert.deepEqual(configOf({ tools: [tool("f", { isStrict: true, schema })] }), { mode: "VALIDATED" });
  assert.deepEqual(lossesOf({ tools, allowsParallelCalls: false }), ["parallelCalls"]);
  assert.deepEqual(lossesOf({ toolChoice: { kind: "required" } }), ["toolChoice"]);
  assert.ok(!("toolConfig" in write({ toolChoice: { kind: "required" } }).body));
  const loose = tool("f", { isStrict: true, schema: { ...schema, minProperties: 1 } });
  assert.deepEqual(lossesOf({ tools: [loose] }), ["toolStrictness"]);
});

test("formats of the answer: JSON, a schema; beside tools only from Gemini 3 on", () => {
  assert.deepEqual(generationOf({ outputFormat: { kind: "json" } }), { responseMimeType: "application/json" });
  const outputFormat = { kind: "schema", name: "n", description: "d", schema } as const;
  const written = { responseMimeType: "application/json", responseJsonSchema: { description: "d", ...schema } };
  assert.deepEqual(generationOf({ outputFormat }), written);
  assert.deepEqual(generationOf({ outputFormat, tools: [tool("f")] }), written);
  assert.deepEqual(generationOf({ outputFormat, tools: [tool("f")] }, "gemini-2.5-pro"), {});
  assert.deepEqual(lossesOf({ outputFormat, tools: [tool("f")] }, "gemini-2.5-pro"), ["outputFormat"]);
});

const thinkingOf = (reasoning: Reasoning, model: string, more: Partial<Conversation> = {}): unknown =>
  generationOf({ reasoning, ...more }, model)["thinkingConfig"];

test("efforts are levels from Gemini 3 on, the lowest that the model has for none", () => {
  const levels = (model: string): unknown[] =>
    efforts.map((effort) => (thinkingOf({ effort }, model) as Fields)["thinkingLevel"]);
  const rest = ["HIGH", "HIGH", "HIGH"];
  assert.deepEqual(levels("gemini-3-flash-preview"), ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", ...rest]);
  assert.deepEqual(levels("gemini-3.1-flash-lite"), ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", ...rest]);
  assert.deepEqual(levels("gemini-3.8-flash"), ["LOW", "LOW", "LOW", "MEDIUM", ...rest]);
  assert.deepEqual(levels("gemini-3.1-pro-preview"), ["LOW", "LOW", "LOW", "MEDIUM", ...rest]);
  assert.deepEqual(levels("gemini-3-pro-preview"), ["LOW", "LOW", "LOW", "HIGH", ...rest]);
  assert.deepEqual(levels("gemini-flash-latest"), ["LOW", "LOW", "LOW", "MEDIUM", ...rest]);
});

test("efforts are budgets on Gemini 2.5, within what the model allows", () => {
  const budgets = (model: string): unknown[] =>
    efforts.map((effort) => (thinkingOf({ effort }, model) as Fields)["thinkingBudget"]);
  assert.deepEqual(budgets("gemini-2.5-flash"), [0, 1024, 1024, 8192, 24_576, 24_576, 24_576]);
  assert.deepEqual(budgets("gemini-2.5-pro"), [128, 1024, 1024, 8192, 24_576, 32_768, 32_768]);
});

test("trap 28 (below max_tokens; do not quietly raise max_tokens): the budget yields to the cap", () => {
  const given = generationOf({ reasoning: { effort: "high" }, maxOutputTokens: 4000 }, "gemini-2.5-flash");
  assert.deepEqual(given, { maxOutputTokens: 4000, thinkingConfig: { thinkingBudget: 3999 } });
});

test("budgets: kept within the range on 2.5, the nearest level from Gemini 3 on, never both", () => {
  const budget = (budgetTokens: number, model: string): unknown => thinkingOf({ budgetTokens }, model);
  assert.deepEqual(budget(5000, "gemini-2.5-pro"), { thinkingBudget: 5000 });
  assert.deepEqual(budget(99_999, "gemini-2.5-pro"), { thinkingBudget: 32_768 });
  assert.deepEqual(budget(0, "gemini-2.5-pro"), { thinkingBudget: 128 });
  for (const [tokens, level] of [
    [1024, "LOW"],
    [8000, "MEDIUM"],
    [20_000, "HIGH"],
  ] as const) {
    assert.deepEqual(budget(tokens, "gemini-3-flash"), { thinkingLevel: level });
  }
});

test("thoughts are shown to who wants them; models that do not think lose the setting", () => {
  assert.deepEqual(thinkingOf({ isShown: true }, "gemini-3-flash"), { includeThoughts: true });
  const shown = { thinkingLevel: "LOW", includeThoughts: true };
  assert.deepEqual(thinkingOf({ effort: "low", isShown: true }, "gemini-3-flash"), shown);
  assert.deepEqual(thinkingOf({ effort: "none", isShown: true }, "gemini-2.5-flash"), { thinkingBudget: 0 });
  assert.equal(thinkingOf({}, "gemini-3-flash"), undefined);
  assert.deepEqual(lossesOf({ reasoning: { effort: "high" } }, "gemini-2.0-flash"), ["reasoning"]);
  assert.deepEqual(lossesOf({ reasoning: { effort: "none" } }, "gemini-2.0-flash"), []);
  assert.deepEqual(lossesOf({ reasoning: { budgetTokens: 9 } }, "gemini-3-flash", "no-thinking"), ["reasoning"]);
});

test("names go out by Gemini's rules and come back as they were", () => {
  const name = fc.oneof(
    fc.string(),
    fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
    fc.constantFrom("_relay.a", "_relaytext.b"),
  );
  fc.assert(
    fc.property(name, fc.boolean(), (given, isFreeText) => {
      const written = writeName({ name: given, isFreeText });
      assert.match(written, /^[A-Za-z_][A-Za-z0-9_.:-]*$/);
      assert.deepEqual(readName(written), { name: given, isFreeText });
    }),
  );
  assert.equal(writeName({ name: "get_weather-2", isFreeText: false }), "get_weather-2");
  assert.throws(() => writeName({ name: "!".repeat(257), isFreeText: false }), UnsupportedError);
});
