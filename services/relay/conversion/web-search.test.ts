import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { clients, providers } from "../dialects/conversions.ts";
import type { DialectName, UpstreamDialectName } from "../dialects/dialect.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { envelopeOf } from "../testing/fakes.ts";
import { parseConversation, writeRequest } from "./convert.ts";

type Json = Record<string, unknown>;
const said = { messages: [{ role: "user", content: "Hi" }], input: "Hi", max_tokens: 100 };

/** The request as the provider gets it, and what its caller is told was left out. */
function written(fields: Json, from: DialectName, to: UpstreamDialectName, hasSearchPrice = true) {
  const [client, provider] = [clients[from], providers[to]];
  assert.ok(client && provider);
  const body = readJsonBody(Buffer.from(JSON.stringify({ model: "m", ...said, ...fields })));
  const target = { model: "u", maxOutputTokens: 1_000, quirks: new Set<never>(), hasSearchPrice };
  const parsed = parseConversation({ ...envelopeOf(), body }, client);
  const { body: bytes, dropped } = writeRequest(parsed, { client, provider }, target);
  return { request: JSON.parse(bytes.toString()) as Json, dropped: dropped.filter((name) => /search/.test(name)) };
}

const place = { city: "Berlin", country: "DE" };
const ofMessages = (fields: Json = {}): Json => ({ type: "web_search_20250305", name: "web_search", ...fields });
const inMessages = (fields: Json = {}): Json => ({ tools: [ofMessages(fields)] });
const inResponses = (fields: Json = {}): Json => ({ tools: [{ type: "web_search", ...fields }] });
const near = { user_location: { type: "approximate", ...place } };
const callable = { type: "function", name: "get", parameters: { type: "object", properties: {} } };

type Row = [what: string, from: DialectName, fields: Json, to: UpstreamDialectName, tools: unknown, more?: Json];

describe("a search of the web is put in the words of another provider", () => {
  const [chat, responses, messages, gemini] = [
    "openai-chat",
    "openai-responses",
    "anthropic-messages",
    "gemini-generate",
  ] as const;
  const domains = ["a.example"];
  const google = [{ googleSearch: {} }];
  const rows: Row[] = [
    [
      "Responses to Messages",
      responses,
      inResponses({ ...near, search_context_size: "low" }),
      messages,
      [ofMessages(near)],
    ],
    [
      "with where to search",
      responses,
      inResponses({ filters: { allowed_domains: domains } }),
      messages,
      [ofMessages({ allowed_domains: domains })],
    ],
    ["of a dated type", responses, { tools: [{ type: "web_search_2025_08_26" }] }, messages, [ofMessages()]],
    [
      "chat to Messages",
      chat,
      { web_search_options: { user_location: { type: "approximate", approximate: place } } },
      messages,
      [ofMessages(near)],
    ],
    [
      "chat to Responses",
      chat,
      { web_search_options: { search_context_size: "high" } },
      responses,
      [{ type: "web_search", search_context_size: "high" }],
    ],
    [
      "Messages to Responses",
      messages,
      inMessages({ max_uses: 3, ...near }),
      responses,
      [{ type: "web_search", ...near }],
      { max_tool_calls: 3 },
    ],
    ["Messages to Gemini", messages, inMessages(), gemini, google],
    ["Responses to Gemini", responses, inResponses(near), gemini, google],
    ["chat to Gemini", chat, { web_search_options: {} }, gemini, google],
  ];
  for (const [what, from, fields, to, tools, more] of rows) {
    test(what, () => {
      const { request, dropped } = written(fields, from, to);
      assert.deepEqual(request["tools"], tools);
      for (const [name, value] of Object.entries(more ?? {})) assert.deepEqual(request[name], value);
      assert.deepEqual(dropped, []);
    });
  }

  const lost: [what: string, from: DialectName, fields: Json, to: UpstreamDialectName, name: string][] = [
    ["to chat, which counts none", responses, inResponses(), chat, "tools.web_search"],
    [
      "to Gemini beside functions",
      responses,
      { tools: [callable, { type: "web_search" }] },
      gemini,
      "tools.web_search",
    ],
    ["to Gemini with a limit", messages, inMessages({ max_uses: 2 }), gemini, "tools.web_search_20250305"],
    [
      "to Responses with where not to",
      messages,
      inMessages({ blocked_domains: domains }),
      responses,
      "tools.web_search_20250305",
    ],
    ["that may not use the web", responses, inResponses({ external_web_access: false }), messages, "tools.web_search"],
    ["that no choice allows", responses, { ...inResponses(), tool_choice: "none" }, messages, "tools.web_search"],
    [
      "whose name is taken",
      responses,
      { tools: [{ ...callable, name: "web_search" }, { type: "web_search" }] },
      messages,
      "tools.web_search",
    ],
  ];
  for (const [what, from, fields, to, name] of lost) {
    test(`or left out and named: ${what}`, () => {
      const { request, dropped } = written(fields, from, to);
      assert.deepEqual(dropped, [name]);
      assert.doesNotMatch(JSON.stringify(request["tools"] ?? []), /web_search_2|googleSearch|"type":"web_search"/);
    });
  }

  test("or left out and named: at a model whose prices do not speak of it", () => {
    const { request, dropped } = written(inResponses(), responses, messages, false);
    assert.deepEqual([request["tools"], dropped], [undefined, ["tools.web_search"]]);
  });

  test("beside functions, which stay", () => {
    const { request } = written({ tools: [callable, { type: "web_search" }] }, responses, messages);
    assert.deepEqual(
      (request["tools"] as Json[]).map(({ name }) => name),
      ["get", "web_search"],
    );
  });
});
