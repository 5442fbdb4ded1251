import assert from "node:assert/strict";
import { test } from "node:test";
import type { ResponseCreateParams } from "openai/resources/responses/responses";
import { UnsupportedError, type Conversation, type Turn } from "../conversation.ts";
import { wrapOpaque } from "../opaque.ts";
import { readRequest } from "./read-request.ts";
import { writeItemState } from "./state.ts";

type Body = Record<string, unknown>;
const read = (fields: ResponseCreateParams): Conversation => readRequest(fields as Body).conversation;
const turnsOf = (input: unknown): Turn[] => readRequest({ model: "m", input }).conversation.turns;
const droppedOf = (fields: Body): string[] => [...readRequest({ model: "m", input: "Hi", ...fields }).dropped];
const refuses = (fields: Body, message: RegExp): void => {
  assert.throws(
    () => readRequest({ model: "m", input: "Hi", ...fields }),
    (error: unknown) => {
      assert.ok(error instanceof UnsupportedError);
      assert.match(error.message, message);
      return true;
    },
  );
};
const text = (words: string) => ({ kind: "text", text: words }) as const;
const png = "data:image/png;base64,QUJD";

test("API spec, Responses request: input is a string or an array of conversation items", () => {
  assert.deepEqual(turnsOf("Hi"), [{ role: "user", parts: [text("Hi")] }]);
  const items = [
    { role: "user", content: "Hi" },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello.", annotations: [] }] },
    { role: "user", content: [{ type: "input_text", text: "Again" }] },
  ];
  assert.deepEqual(turnsOf(items), [
    { role: "user", parts: [text("Hi")] },
    { role: "assistant", parts: [text("Hello.")] },
    { role: "user", parts: [text("Again")] },
  ]);
});

test("API spec, Responses request: instructions are the system's, in front; developers and systems stay in place", () => {
  const { turns } = read({
    instructions: "Be brief.",
    input: [
      { role: "user", content: "Hi" },
      { role: "developer", content: "In French." },
      { role: "system", content: "Really." },
      { role: "user", content: "Go" },
    ],
  });
  assert.deepEqual(turns, [
    { role: "system", parts: [text("Be brief.")] },
    { role: "user", parts: [text("Hi")] },
    { role: "system", parts: [text("In French."), text("Really.")] },
    { role: "user", parts: [text("Go")] },
  ]);
});

test("items of one side are one turn: a message with the calls behind it, and all their results", () => {
  const input = [
    { role: "user", content: "Weather?" },
    { role: "assistant", content: "Looking." },
    { type: "function_call", id: "fc_1", call_id: "c1", name: "weather", arguments: "{}", status: "completed" },
    { type: "function_call", call_id: "c2", name: "now", arguments: "" },
    { type: "function_call_output", call_id: "c1", output: "Rain" },
    { type: "function_call_output", call_id: "c2", output: [{ type: "input_image", image_url: png }] },
  ];
  const image = { kind: "image", source: { kind: "base64", mediaType: "image/png", data: "QUJD" } };
  assert.deepEqual(turnsOf(input).slice(1), [
    {
      role: "assistant",
      parts: [
        text("Looking."),
        { kind: "call", id: "c1", name: "weather", input: "{}" },
        { kind: "call", id: "c2", name: "now", input: "" },
      ],
    },
    {
      role: "user",
      parts: [
        { kind: "result", callId: "c1", parts: [text("Rain")], isError: false },
        { kind: "result", callId: "c2", parts: [image], isError: false },
      ],
    },
  ]);
});

test("trap 24 (results first and contiguous): a message between results stands behind them", () => {
  const input = [
    { type: "function_call", call_id: "c1", name: "a", arguments: "{}" },
    { type: "function_call", call_id: "c2", name: "b", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "1" },
    { role: "user", content: "And?" },
    { type: "function_call_output", call_id: "c2", output: "2" },
  ];
  const kinds = turnsOf(input)[1]?.parts.map((part) => (part.kind === "result" ? part.callId : part.kind));
  assert.deepEqual(kinds, ["c1", "c2", "text"]);
});

test("calls and results of custom tools hold free text", () => {
  const input = [
    { type: "custom_tool_call", call_id: "c1", name: "shell", input: "ls -l" },
    { type: "custom_tool_call_output", call_id: "c1", output: "a.txt" },
  ];
  assert.deepEqual(turnsOf(input), [
    { role: "assistant", parts: [{ kind: "call", id: "c1", name: "shell", input: "ls -l", isFreeText: true }] },
    {
      role: "user",
      parts: [{ kind: "result", callId: "c1", parts: [text("a.txt")], isError: false, isFreeText: true }],
    },
  ]);
});

test("trap 16 (a reasoning item has no role): it is the model's thinking, not a user's message", () => {
  const call = { type: "function_call", call_id: "c1", name: "a", arguments: "{}" };
  const summary = [
    { type: "summary_text", text: "First." },
    { type: "summary_text", text: "Then." },
  ];
  const turns = turnsOf([
    { role: "user", content: "Hi" },
    { type: "reasoning", id: "rs_1", summary, encrypted_content: "gAAA" },
    call,
  ]);
  assert.deepEqual(turns[1], {
    role: "assistant",
    parts: [
      { kind: "thinking", text: "First.\n\nThen.", opaque: { issuer: "openai-responses", value: "gAAA" } },
      { kind: "call", id: "c1", name: "a", input: "{}" },
    ],
  });
});

test("thoughts that a model shows are read where there is no summary; nothing at all is no thinking", () => {
  const shown = { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] };
  assert.deepEqual(turnsOf([shown]), [{ role: "assistant", parts: [{ kind: "thinking", text: "Hm." }] }]);
  assert.deepEqual(turnsOf([{ type: "reasoning", id: "rs_1", summary: [] }]), []);
});

test("opaque state of another provider comes back to it, as thinking of its own", () => {
  const opaque = { issuer: "anthropic-messages", value: "EqQB" } as const;
  const item = { type: "reasoning", summary: [], encrypted_content: wrapOpaque(opaque) };
  assert.deepEqual(turnsOf([item]), [{ role: "assistant", parts: [{ kind: "thinking", text: "", opaque }] }]);
});

test("trap 13 (replayed calls need their thought signature): the state behind a call is given back to the call", () => {
  const opaque = { issuer: "gemini-generate", value: "CiQB" } as const;
  const state = { type: "reasoning", summary: [], encrypted_content: writeItemState(opaque) };
  const call = { type: "function_call", call_id: "c1", name: "a", arguments: "{}" };
  assert.deepEqual(turnsOf([call, state, { type: "function_call_output", call_id: "c1", output: "1" }])[0], {
    role: "assistant",
    parts: [{ kind: "call", id: "c1", name: "a", input: "{}", opaque }],
  });
  assert.deepEqual(turnsOf([{ role: "assistant", content: "Hi" }, state])[0]?.parts, [{ ...text("Hi"), opaque }]);
  assert.deepEqual(turnsOf([state]), [], "without what it belongs to it is of no use");
});

test("trap 25 (empty text): it vanishes, alone and beside calls", () => {
  const call = { type: "function_call", call_id: "c1", name: "a", arguments: "{}" };
  assert.deepEqual(turnsOf([{ role: "assistant", content: "" }, call])[0]?.parts.length, 1);
  assert.deepEqual(turnsOf([{ role: "user", content: [{ type: "input_text", text: "" }] }]), []);
});

const partRows: [string, object, object][] = [
  [
    "an image within the request",
    { type: "input_image", image_url: png, detail: "high" },
    { kind: "image", source: { kind: "base64", mediaType: "image/png", data: "QUJD" }, detail: "high" },
  ],
  [
    "an image by address",
    { type: "input_image", image_url: "https://a.example/b.png" },
    { kind: "image", source: { kind: "url", url: "https://a.example/b.png" } },
  ],
  [
    "a file within the request",
    { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,QUJD" },
    { kind: "file", source: { kind: "base64", mediaType: "application/pdf", data: "QUJD" }, name: "a.pdf" },
  ],
  [
    "a file without a type of its own",
    { type: "input_file", filename: "a.txt", file_data: "QUJD" },
    { kind: "file", source: { kind: "base64", mediaType: "text/plain", data: "QUJD" }, name: "a.txt" },
  ],
  [
    "a file by address",
    { type: "input_file", file_url: "https://a.example/b.pdf" },
    { kind: "file", source: { kind: "url", url: "https://a.example/b.pdf" } },
  ],
  [
    "sound",
    { type: "input_audio", input_audio: { data: "UklG", format: "wav" } },
    { kind: "audio", mediaType: "audio/wav", data: "UklG" },
  ],
  [
    "a mark of what to cache",
    { type: "input_text", text: "Long", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
    { ...text("Long"), cache: { ttl: "1h" } },
  ],
  [
    "an answer with the sources that it cites",
    {
      type: "output_text",
      text: "So",
      annotations: [
        { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 2 },
        { type: "file_citation", file_id: "file_1" },
      ],
    },
    { ...text("So"), citations: [{ url: "https://a.example", title: "A", start: 0, end: 2 }] },
  ],
  ["a refusal", { type: "refusal", refusal: "No." }, { kind: "refusal", text: "No." }],
];
for (const [what, part, expected] of partRows) {
  test(`content is read: ${what}`, () => {
    assert.deepEqual(turnsOf([{ role: "user", content: [part] }]), [{ role: "user", parts: [expected] }]);
  });
}

test("API spec, Responses request: tools are read flat, functions and custom ones", () => {
  const schema = { type: "object", properties: {} };
  const format = { type: "grammar", syntax: "lark", definition: "start: /a/" } as const;
  const { tools } = read({
    tools: [
      { type: "function", name: "a", description: "Does a.", parameters: schema, strict: true },
      { type: "function", name: "b", parameters: null, strict: null },
      { type: "custom", name: "c", format },
    ],
  });
  assert.deepEqual(tools, [
    { name: "a", description: "Does a.", schema, isStrict: true },
    { name: "b" },
    { name: "c", schema: format, isFreeText: true },
  ]);
});

const choiceRows: [string, ResponseCreateParams["tool_choice"], object][] = [
  ["auto", "auto", { kind: "auto" }],
  ["none", "none", { kind: "none" }],
  ["required", "required", { kind: "required" }],
  ["a function", { type: "function", name: "a" }, { kind: "required", names: ["a"] }],
  ["a custom tool", { type: "custom", name: "c" }, { kind: "required", names: ["c"] }],
  [
    "some of them",
    {
      type: "allowed_tools",
      mode: "auto",
      tools: [
        { type: "function", name: "a" },
        { type: "custom", name: "c" },
      ],
    },
    { kind: "auto", names: ["a", "c"] },
  ],
  [
    "one of some",
    { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "a" }] },
    { kind: "required", names: ["a"] },
  ],
];
for (const [what, choice, expected] of choiceRows) {
  test(`trap 29 (tool_choice and allowed_tools get lost): ${what} is read`, () => {
    assert.deepEqual(read({ ...(choice !== undefined && { tool_choice: choice }) }).toolChoice, expected);
  });
}

test("settings are read: limits, sampling, parallel calls, reasoning, format, verbosity, the caller's user", () => {
  const schema = { type: "object" };
  const {
    turns: _turns,
    tools: _tools,
    ...settings
  } = read({
    input: "Hi",
    stream: true,
    max_output_tokens: 50,
    temperature: 0.5,
    top_p: 0.9,
    top_logprobs: 3,
    include: ["message.output_text.logprobs", "reasoning.encrypted_content"],
    parallel_tool_calls: false,
    reasoning: { effort: "high", summary: "auto" },
    text: { format: { type: "json_schema", name: "x", schema, strict: true }, verbosity: "low" },
    user: "old",
    safety_identifier: "u1",
  });
  assert.deepEqual(settings, {
    isStream: true,
    wantsStreamUsage: true,
    stopSequences: [],
    maxOutputTokens: 50,
    temperature: 0.5,
    topP: 0.9,
    topLogprobs: 3,
    allowsParallelCalls: false,
    reasoning: { effort: "high", isShown: true, saysDisplay: true },
    outputFormat: { kind: "schema", name: "x", schema, isStrict: true },
    verbosity: "low",
    endUser: "u1",
  });
  assert.deepEqual(read({ text: { format: { type: "json_object" } } }).outputFormat, { kind: "json" });
  assert.equal(read({ text: { format: { type: "text" } } }).outputFormat, undefined);
});

const dropRows: [string, Body, string[]][] = [
  [
    "settings that no other format has",
    { truncation: "auto", max_tool_calls: 3, prompt_cache_options: { mode: "auto", comparison_response_id: "r" } },
    ["truncation", "max_tool_calls", "prompt_cache_options.comparison_response_id"],
  ],
  ["an answer that shall be stored", { store: true }, ["store"]],
  ["a count that is none", { top_logprobs: -1, include: ["message.output_text.logprobs"] }, ["top_logprobs"]],
  [
    "fields that are not known yet",
    { context_management: [{ type: "x" }], brand_new: 1 },
    ["context_management", "brand_new"],
  ],
  [
    "values of no known kind",
    { temperature: "hot", reasoning: { effort: "huge" } },
    ["temperature", "reasoning.effort"],
  ],
  ["fields within fields", { text: { tone: "dry" }, reasoning: { mode: "pro" } }, ["text.tone", "reasoning.mode"]],
  ["how long thoughts shall be shown", { reasoning: { summary: "detailed" } }, ["reasoning.summary"]],
  ["other things to include", { include: ["message.input_image.image_url"] }, ["include"]],
  ["a search of the provider's", { input: [{ type: "web_search_call", id: "ws_1" }] }, ["input.web_search_call"]],
  ["fields of tools", { tools: [{ type: "function", name: "a", defer_loading: true }] }, ["tools.defer_loading"]],
  ["fields of items", { input: [{ role: "assistant", content: "x", phase: "commentary" }] }, ["input.phase"]],
  [
    "fields of parts",
    { input: [{ role: "user", content: [{ type: "input_file", file_url: "https://a.example", detail: "low" }] }] },
    ["input.content.detail"],
  ],
];
for (const [what, fields, names] of dropRows) {
  test(`what is not carried is named: ${what}`, () => {
    assert.deepEqual(droppedOf(fields).toSorted(), names.toSorted());
  });
}

test("what asks for what happens anyway, or for nothing, is not named", () => {
  const silent = {
    store: false,
    background: false,
    truncation: "disabled",
    service_tier: "auto",
    metadata: {},
    user: null,
    previous_response_id: null,
    stream: true,
    stream_options: { include_obfuscation: false },
  };
  assert.deepEqual(droppedOf(silent), []);
  assert.deepEqual(droppedOf({ input: [{ id: "msg_1", status: "completed", role: "user", content: "Hi" }] }), []);
});

const refusalRows: [string, Body, RegExp][] = [
  ["previous_response_id", { previous_response_id: "resp_1" }, /field previous_response_id/],
  ["conversation", { conversation: "conv_1" }, /field conversation/],
  ["prompt", { prompt: { id: "pmpt_1" } }, /field prompt/],
  ["background", { background: true }, /field background/],
  ["a stored item", { input: [{ type: "item_reference", id: "msg_1" }] }, /input\[0\].*item_reference/],
  [
    "a tool of the provider's where one must be called",
    { tools: [{ type: "web_search" }], tool_choice: "required" },
    /tools\[0\].*web_search/,
  ],
  ["a call of such a tool", { input: [{ type: "file_search_call", id: "fs_1" }] }, /input\[0\].*file_search_call/],
  ["the choice of such a tool", { tool_choice: { type: "file_search" } }, /tool_choice.*file_search/],
  [
    "such a tool among those allowed",
    { tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "mcp", server_label: "x" }] } },
    /tool_choice\.tools\[0\].*mcp/,
  ],
  ["an image by id", { input: [{ role: "user", content: [{ type: "input_image", file_id: "f" }] }] }, /file_id/],
  ["a file by id", { input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] }, /file_id/],
  ["a part of no known kind", { input: [{ role: "user", content: [{ type: "video" }] }] }, /content\[0\]\.type/],
  ["a role of no known kind", { input: [{ role: "critic", content: "x" }] }, /input\[0\]\.role/],
  ["an item of no known kind", { input: [7] }, /input\[0\]/],
  ["a call without a name", { input: [{ type: "function_call", call_id: "c" }] }, /input\[0\]\.name/],
];
for (const [what, fields, message] of refusalRows) {
  test(`what only one provider can serve is refused by its name: ${what}`, () => refuses(fields, message));
}
