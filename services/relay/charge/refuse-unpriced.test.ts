import assert from "node:assert/strict";
import { test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { parseCatalog } from "../catalog/catalog.ts";
import type { Model } from "../catalog/models.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { CallFailure } from "../failures.ts";
import { refuseUnpriced } from "./refuse-unpriced.ts";

const prices = 'version: "1", input_tokens: "1", output_tokens: "2"';
const tiers = "variants: [{ above_input_tokens: 1000, output_tokens: '3' }, { service_tier: flex, multiplier: '0.5' }]";

function modelOf(price: string, fields = ""): Model {
  const upstream = `{ base_url: "http://a", dialects: [openai-chat], credential: { env: K } }`;
  const model = `{ owned_by: a, upstreams: [{ name: u }], context_tokens: 9999, max_output_tokens: 9, ${fields} price: { ${price} } }`;
  const catalog = parseCatalog(`upstreams: { u: ${upstream} }\nmodels: { m: ${model} }`, "c.yaml", { K: "k" });
  const found = catalog.models.get("m");
  assert.ok(found);
  return found;
}

const plain = modelOf(prices);
const searching = modelOf(`${prices}, tool_calls: "10000"`);

/** Why a request is refused; undefined when it is not. */
function refusalOf(fields: object, model = plain, dialect: DialectName = "openai-responses"): string | undefined {
  const body = readJsonBody(Buffer.from(JSON.stringify({ model: "m", ...fields })));
  try {
    refuseUnpriced(dialects[dialect].readEnvelope(body, "m"), model, dialects[dialect]);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof CallFailure);
    assert.equal(error.failure.name, "field_invalid");
    return error.failure.detail;
  }
}

test("a service tier without a price row is refused by name; auto and default need none", () => {
  for (const dialect of ["openai-chat", "openai-responses"] as const) {
    for (const tier of ["priority", "flex", "scale", "ultrafast", "", "Default"]) {
      const detail = `field service_tier "${tier}" has no price for this model and cannot be used`;
      assert.equal(refusalOf({ service_tier: tier }, plain, dialect), detail);
    }
    for (const tier of ["auto", "default", null])
      assert.equal(refusalOf({ service_tier: tier }, plain, dialect), undefined);
    assert.equal(refusalOf({}, plain, dialect), undefined);
  }
});

test("a dearer size or quality in other letters is refused: a server may take it for what it looks like", () => {
  const dearer = "variants: [{ quality: hd, size: 1024x1792, images: '3' }, { quality: hd, images: '2' }]";
  const drawing = modelOf(`${prices}, images: "1", ${dearer}`);
  const refusal = (fields: object) => refusalOf({ prompt: "x", ...fields }, drawing, "openai-images");
  for (const quality of ["HD", " hd", "h-d"]) assert.equal(refusal({ quality }), "field quality must be written hd");
  assert.equal(refusal({ size: "1024X1792" }), "field size must be written 1024x1792");
  for (const quality of ["hd", "standard", "auto"]) assert.equal(refusal({ quality, size: "1024x1024" }), undefined);
});

test("a search that nobody counts passes where a fee for each request covers it", () => {
  const withFee = modelOf(`${prices}, requests: "5000"`);
  for (const field of ["web_search_options", "search_parameters"]) {
    const asked = { messages: [], [field]: { search_context_size: "high" } };
    assert.match(refusalOf(asked, plain, "openai-chat") ?? "", new RegExp(field));
    assert.equal(refusalOf(asked, withFee, "openai-chat"), undefined);
  }
});

test("tools are counted, for telling what each costs takes time", () => {
  const tools = Array.from({ length: 10_001 }, () => ({ type: "function" }));
  assert.match(refusalOf({ tools }) ?? "", /at most 10000 tools/);
  assert.equal(refusalOf({ tools: tools.slice(1) }), undefined);
});

test("a tier passes where the row that its call is priced by names it, and nowhere else", () => {
  const model = modelOf(`${prices}, ${tiers}`);
  assert.equal(refusalOf({ service_tier: "flex" }, model), undefined);
  assert.match(refusalOf({ service_tier: "priority" }, model) ?? "", /priority/);
  assert.match(refusalOf({ service_tier: "fast" }, model) ?? "", /priority/, "the same by another word");
  const dear = modelOf(`${prices}, variants: [{ service_tier: priority, multiplier: '2' }]`);
  for (const tier of ["priority", "fast"]) assert.equal(refusalOf({ service_tier: tier }, dear), undefined);
  const long = { service_tier: "flex", input: "word ".repeat(2_000) };
  assert.match(refusalOf(long, model) ?? "", /flex/, "the first row that fits is for any tier");
});

test("Messages have their tier taken out, so that it needs no price", () => {
  assert.equal(refusalOf({ service_tier: "priority", max_tokens: 5 }, plain, "anthropic-messages"), undefined);
});

type Expected = "passes" | "priced" | "refused";

// Whether types compile tells whether the official clients know a tool that is not here.
const openaiTools: Record<OpenAI.Responses.Tool["type"], Expected> = {
  function: "passes",
  custom: "passes",
  namespace: "passes",
  shell: "passes",
  local_shell: "passes",
  apply_patch: "passes",
  computer: "passes",
  computer_use_preview: "passes",
  mcp: "passes",
  tool_search: "passes",
  programmatic_tool_calling: "passes",
  web_search: "priced",
  web_search_2025_08_26: "priced",
  web_search_preview: "priced",
  web_search_preview_2025_03_11: "priced",
  file_search: "priced",
  code_interpreter: "refused",
  image_generation: "refused",
};

const anthropicTools: Record<NonNullable<Anthropic.Beta.BetaToolUnion["type"]>, Expected> = {
  custom: "passes",
  bash_20241022: "passes",
  bash_20250124: "passes",
  browser_toolset_20260801: "passes",
  memory_20250818: "passes",
  computer_20241022: "passes",
  computer_20250124: "passes",
  computer_20251124: "passes",
  computer_toolset_20260801: "passes",
  text_editor_20241022: "passes",
  text_editor_20250124: "passes",
  text_editor_20250429: "passes",
  text_editor_20250728: "passes",
  web_fetch_20250910: "passes",
  web_fetch_20260209: "passes",
  web_fetch_20260309: "passes",
  web_fetch_20260318: "passes",
  tool_search_tool_bm25: "passes",
  tool_search_tool_bm25_20251119: "passes",
  tool_search_tool_regex: "passes",
  tool_search_tool_regex_20251119: "passes",
  mcp_toolset: "passes",
  web_search_20250305: "priced",
  web_search_20260209: "priced",
  web_search_20260318: "priced",
  code_execution_20250522: "refused",
  code_execution_20250825: "refused",
  code_execution_20260120: "refused",
  code_execution_20260521: "refused",
  advisor_20260301: "refused",
};

const isRefused = (type: string, dialect: DialectName, model: Model): boolean => {
  const detail = refusalOf({ max_tokens: 5, tools: [{ type: "function" }, { type, name: "x" }] }, model, dialect);
  if (detail === undefined) return false;
  assert.equal(detail, `a tool of type "${type}" in field tools has no price for this model and cannot be used`);
  return true;
};

const rows = [
  ["openai-responses", openaiTools],
  ["anthropic-messages", anthropicTools],
] as const;
for (const [dialect, types] of rows) {
  for (const [type, expected] of Object.entries(types)) {
    test(`${dialect}: a tool of type ${type} ${expected === "priced" ? "needs a price" : expected}`, () => {
      assert.equal(isRefused(type, dialect, plain), expected !== "passes");
      assert.equal(isRefused(type, dialect, searching), expected === "refused");
    });
  }
}

test("a tool that nobody knows may cost anything, and so may one without a type", () => {
  assert.ok(isRefused("new_tool_2027", "openai-responses", searching));
  assert.match(refusalOf({ tools: [{ type: 7 }] }, searching) ?? "", /type ""/);
});

test("Groq's browser is the provider's own, another one the caller's", () => {
  assert.ok(isRefused("browser_search", "openai-chat", plain));
  assert.equal(isRefused("browser_search", "openai-chat", searching), false);
  assert.equal(isRefused("browser_20260801", "anthropic-messages", plain), false);
});

test("a shell passes where the caller runs it, not in the provider's container", () => {
  const shell = (type: string): object => ({ tools: [{ type: "shell", environment: { type } }] });
  assert.equal(refusalOf(shell("local")), undefined);
  for (const type of ["container_auto", "container_reference"]) assert.match(refusalOf(shell(type)) ?? "", /container/);
});

test("a tool of Gemini's is found in chat, where a gateway before that takes it by its name", () => {
  const look = { type: "function", function: { name: "look" } };
  for (const tool of [{ googleSearch: {} }, { google_search: {} }, { ...look, enterpriseWebSearch: {} }]) {
    assert.match(refusalOf({ tools: [look, tool] }, searching, "openai-chat") ?? "", /search" in field tools/i);
  }
  assert.equal(
    refusalOf({ tools: [look, { function: { name: "googleSearch" } }] }, searching, "openai-chat"),
    undefined,
  );
});

test("a provider's tool within a namespace is found", () => {
  const tools = [{ type: "namespace", name: "n", tools: [{ type: "function" }, { type: "image_generation" }] }];
  assert.match(refusalOf({ tools }) ?? "", /image_generation/);
});

test("a provider's tool in the middle of a conversation is found", () => {
  const tools = [{ type: "function", name: "a" }, { type: "web_search" }];
  const message = { role: "user", content: [{ type: "input_text", text: "x" }] };
  for (const type of ["additional_tools", "tool_search_output"]) {
    const input = [message, { type, role: "developer", tools }];
    assert.match(refusalOf({ input }) ?? "", /type "web_search" in field input/);
    assert.equal(refusalOf({ input }, searching), undefined);
    const grouped = [{ type, tools: [{ type: "namespace", name: "n", tools: [{ type: "code_interpreter" }] }] }];
    assert.match(refusalOf({ input: grouped }, searching) ?? "", /code_interpreter/);
  }
  const listed = {
    type: "mcp_list_tools",
    server_label: "s",
    tools: [{ name: "a", input_schema: { type: "object" } }],
  };
  const output = { type: "function_call_output", call_id: "c", output: JSON.stringify({ tools }) };
  assert.equal(refusalOf({ input: [message, listed, output] }), undefined);
  assert.equal(refusalOf({ input: "x" }), undefined);
});

test("a provider's tool that a block of Messages defines is found", () => {
  const definition = { type: "web_search_20250305", name: "web_search" };
  const block = { type: "tool_addition", tool: { type: "tool_definition", definition } };
  for (const content of [[block], [{ type: "compaction", content: "x", tool_changes: [block] }]]) {
    const fields = {
      max_tokens: 5,
      messages: [
        { role: "user", content: "x" },
        { role: "system", content },
      ],
    };
    assert.match(refusalOf(fields, plain, "anthropic-messages") ?? "", /web_search_20250305" in field messages/);
    assert.equal(refusalOf(fields, searching, "anthropic-messages"), undefined);
  }
  const call = { type: "tool_use", id: "t", name: "a", input: { tool: { definition } } };
  const messages = [{ role: "assistant", content: [{ type: "text", text: "x" }, call] }];
  assert.equal(refusalOf({ max_tokens: 5, messages }, plain, "anthropic-messages"), undefined);
});

test("chat's own search is refused: no answer tells how often it was done", () => {
  for (const field of ["web_search_options", "search_parameters"]) {
    const detail = `field ${field} has no price for this model and cannot be used`;
    assert.equal(refusalOf({ [field]: {} }, searching, "openai-chat"), detail);
    assert.equal(refusalOf({ [field]: null }, searching, "openai-chat"), undefined);
  }
});

test("unpriced_tools: pass lets tools through at the operator's cost, but no tier", () => {
  const generous = modelOf(prices, "unpriced_tools: pass,");
  const tools = [{ type: "image_generation" }, { type: "web_search" }, { type: "new" }];
  assert.equal(refusalOf({ tools }, generous), undefined);
  assert.equal(refusalOf({ web_search_options: {} }, generous, "openai-chat"), undefined);
  assert.match(refusalOf({ tools, service_tier: "priority" }, generous) ?? "", /service_tier/);
});
