import assert from "node:assert/strict";
import { test } from "node:test";
import fastCheck from "fast-check";
import { UnsupportedError, type Conversation, type Part } from "../conversation.ts";
import { readRequest } from "./read-request.ts";

const hi = { role: "user", content: "Hi" };
const read = (fields: object): Conversation => readRequest({ model: "m", messages: [hi], ...fields }).conversation;
const droppedOf = (fields: object): string[] => [...readRequest({ model: "m", messages: [hi], ...fields }).dropped];
const partsOf = (message: object): Part[] => read({ messages: [message] }).turns[0]?.parts ?? [];
const called = (id: string, name = "look", args = "{}"): object => ({
  id,
  type: "function",
  function: { name, arguments: args },
});

test("messages: system and developer stand where they stood, a user's text and a list of parts", () => {
  const messages = [
    { role: "system", content: "one" },
    hi,
    { role: "developer", content: [{ type: "text", text: "two" }] },
    {
      role: "user",
      content: [
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ],
    },
  ];
  assert.deepEqual(read({ messages }).turns, [
    { role: "system", parts: [{ kind: "text", text: "one" }] },
    { role: "user", parts: [{ kind: "text", text: "Hi" }] },
    { role: "system", parts: [{ kind: "text", text: "two" }] },
    {
      role: "user",
      parts: [
        { kind: "text", text: "a" },
        { kind: "text", text: "b" },
      ],
    },
  ]);
});

test("content parts: images, audio, files and refusals", () => {
  const content = [
    { type: "image_url", image_url: { url: "data:image/png;base64,iVB O\nRw==", detail: "low" } },
    { type: "image_url", image_url: { url: "https://pictures.example/a.png" } },
    { type: "input_audio", input_audio: { data: "UklG", format: "wav" } },
    { type: "file", file: { file_data: "data:application/pdf;base64,JVBE", filename: "a.pdf" } },
    { type: "file", file: { file_id: "file-1" } },
    { type: "refusal", refusal: "No." },
  ];
  assert.deepEqual(partsOf({ role: "user", content }), [
    { kind: "image", source: { kind: "base64", mediaType: "image/png", data: "iVBORw==" }, detail: "low" },
    { kind: "image", source: { kind: "url", url: "https://pictures.example/a.png" } },
    { kind: "audio", mediaType: "audio/wav", data: "UklG" },
    { kind: "file", source: { kind: "base64", mediaType: "application/pdf", data: "JVBE" }, name: "a.pdf" },
    { kind: "file", source: { kind: "id", id: "file-1" } },
    { kind: "refusal", text: "No." },
  ]);
});

test("trap 24 (consecutive tool messages): one user turn of results, and what the user says is the next", () => {
  const messages = [
    { role: "assistant", content: null, tool_calls: [called("a"), called("b")] },
    { role: "tool", tool_call_id: "a", content: "1" },
    { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "2" }] },
    hi,
  ];
  assert.deepEqual(read({ messages }).turns.slice(1), [
    {
      role: "user",
      parts: [
        { kind: "result", callId: "a", parts: [{ kind: "text", text: "1" }], isError: false },
        { kind: "result", callId: "b", parts: [{ kind: "text", text: "2" }], isError: false },
      ],
    },
    { role: "user", parts: [{ kind: "text", text: "Hi" }] },
  ]);
});

test('trap 25 (assistant content "" beside tool_calls must vanish): only the calls are left', () => {
  assert.deepEqual(partsOf({ role: "assistant", content: "", tool_calls: [called("a")] }), [
    { kind: "call", id: "a", name: "look", input: "{}" },
  ]);
  const silent = [
    { role: "assistant", content: "" },
    { role: "user", content: "" },
    { role: "user", content: [{ type: "text", text: "" }] },
  ];
  assert.deepEqual(read({ messages: [...silent, hi] }).turns.length, 1);
});

test("trap 26 (empty arguments; cut JSON must not be repaired): the input is what the model wrote", () => {
  const toolCalls = [called("a", "look", ""), called("b", "look", '{"x":')];
  const inputs = partsOf({ role: "assistant", tool_calls: toolCalls }).map(
    (part) => part.kind === "call" && part.input,
  );
  assert.deepEqual(inputs, ["", '{"x":']);
});

test("custom tools: declaration, grammar, call and result are free text", () => {
  const format = { type: "grammar", grammar: { syntax: "lark", definition: "start: WORD" } };
  const conversation = read({
    tools: [{ type: "custom", custom: { name: "shell", description: "Runs.", format } }],
    messages: [
      { role: "assistant", tool_calls: [{ id: "a", type: "custom", custom: { name: "shell", input: "ls" } }] },
      { role: "tool", tool_call_id: "a", content: "x" },
    ],
  });
  const flat = { type: "grammar", syntax: "lark", definition: "start: WORD" };
  assert.deepEqual(conversation.tools, [{ name: "shell", description: "Runs.", isFreeText: true, schema: flat }]);
  assert.deepEqual(conversation.turns[0]?.parts, [
    { kind: "call", id: "a", name: "shell", input: "ls", isFreeText: true },
  ]);
  assert.deepEqual(conversation.turns[1]?.parts, [
    { kind: "result", callId: "a", parts: [{ kind: "text", text: "x" }], isError: false, isFreeText: true },
  ]);
});

test("a tool without a type is a function, as Mistral's client sends it", () => {
  const { tools } = read({ tools: [{ function: { name: "look", parameters: { type: "object" } } }] });
  assert.deepEqual(tools, [{ name: "look", schema: { type: "object" } }]);
});

test("deprecated functions, function_call and role function: tools, a choice, a call and its result", () => {
  const conversation = read({
    functions: [{ name: "look", parameters: { type: "object" } }],
    function_call: { name: "look" },
    messages: [
      { role: "assistant", content: null, function_call: { name: "look", arguments: "{}" } },
      { role: "function", name: "look", content: "seen" },
    ],
  });
  assert.deepEqual(conversation.tools, [{ name: "look", schema: { type: "object" } }]);
  assert.deepEqual(conversation.toolChoice, { kind: "required", names: ["look"] });
  assert.equal(conversation.allowsParallelCalls, false, "an answer holds one function_call");
  const [call, result] = conversation.turns.flatMap(({ parts }) => parts);
  assert.ok(call?.kind === "call" && result?.kind === "result" && call.id === result.callId);
  assert.deepEqual(read({ function_call: "none" }).toolChoice, { kind: "none" });
});

test("trap 29 (tool_choice, allowed_tools and parallel_tool_calls get lost): all are read", () => {
  const choices: [unknown, object][] = [
    ["auto", { kind: "auto" }],
    ["none", { kind: "none" }],
    ["required", { kind: "required" }],
    [
      { type: "function", function: { name: "a" } },
      { kind: "required", names: ["a"] },
    ],
    [
      { type: "custom", custom: { name: "a" } },
      { kind: "required", names: ["a"] },
    ],
    [
      {
        type: "allowed_tools",
        allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "a" } }] },
      },
      { kind: "auto", names: ["a"] },
    ],
  ];
  for (const [tool_choice, expected] of choices) assert.deepEqual(read({ tool_choice }).toolChoice, expected);
  assert.equal(read({ parallel_tool_calls: false }).allowsParallelCalls, false);
  assert.deepEqual(droppedOf({ tool_choice: 7, parallel_tool_calls: "no" }), ["tool_choice", "parallel_tool_calls"]);
});

test("trap 30 (cache_control vanishes): marks on parts, messages and tools, in chat's own word and Anthropic's", () => {
  const marked = (mark: object): object => ({ role: "user", content: [{ type: "text", text: "a", ...mark }] });
  const cacheOf = (message: object): unknown => partsOf(message)[0];
  const [short, long] = [
    { kind: "text", text: "a", cache: { ttl: "5m" } },
    { kind: "text", text: "a", cache: { ttl: "1h" } },
  ];
  assert.deepEqual(cacheOf(marked({ prompt_cache_breakpoint: { mode: "explicit" } })), short);
  assert.deepEqual(cacheOf(marked({ prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } })), long);
  assert.deepEqual(cacheOf(marked({ cache_control: { type: "ephemeral" } })), short);
  assert.deepEqual(cacheOf({ role: "user", content: "a", cache_control: { type: "ephemeral", ttl: "1h" } }), long);
  const tool = { type: "function", function: { name: "a" }, cache_control: { type: "ephemeral" } };
  assert.deepEqual(read({ tools: [tool] }).tools, [{ name: "a", cache: { ttl: "5m" } }]);
});

test("trap 31 (max_tokens and max_completion_tokens): the newer name wins, a different older one is named", () => {
  assert.equal(read({ max_tokens: 10 }).maxOutputTokens, 10);
  assert.equal(read({ max_tokens: 10, max_completion_tokens: 20 }).maxOutputTokens, 20);
  assert.deepEqual(droppedOf({ max_tokens: 10, max_completion_tokens: 20 }), ["max_tokens"]);
  assert.deepEqual(droppedOf({ max_tokens: 20, max_completion_tokens: 20 }), []);
});

test("settings: every field that has a place in the neutral conversation", () => {
  const { turns: _, ...settings } = read({
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    seed: 7,
    n: 2,
    stop: ["a", "b"],
    logprobs: true,
    top_logprobs: 3,
    reasoning_effort: "xhigh",
    verbosity: "low",
    response_format: {
      type: "json_schema",
      json_schema: { name: "city", description: "A city.", schema: { type: "object" }, strict: true },
    },
    safety_identifier: "u",
    stream: true,
    stream_options: { include_usage: true },
    modalities: ["text"],
  });
  assert.deepEqual(settings, {
    tools: [],
    choices: 2,
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    seed: 7,
    stopSequences: ["a", "b"],
    topLogprobs: 3,
    reasoning: { effort: "xhigh" },
    verbosity: "low",
    outputFormat: {
      kind: "schema",
      name: "city",
      description: "A city.",
      schema: { type: "object" },
      isStrict: true,
    },
    endUser: "u",
    isStream: true,
    wantsStreamUsage: true,
  });
  assert.deepEqual(read({ stop: "a" }).stopSequences, ["a"]);
  assert.equal(read({ logprobs: true }).topLogprobs, 0);
  assert.deepEqual(droppedOf({ logprobs: true, top_logprobs: -1 }), ["top_logprobs"]);
  assert.deepEqual(read({ response_format: { type: "json_object" } }).outputFormat, { kind: "json" });
  assert.equal(read({ response_format: { type: "text" } }).outputFormat, undefined);
});

test("what the neutral conversation has no place for is named by the caller's own name, and what is null is not", () => {
  const lost = {
    logit_bias: { 1: 5 },
    store: true,
    prediction: { type: "content", content: "x" },
    moderation: { model: "m" },
    x_unknown: 1,
  };
  assert.deepEqual(droppedOf(lost), Object.keys(lost));
  assert.deepEqual(droppedOf({ logit_bias: null, metadata: {}, store: null, stop: null, n: null, user: null }), []);
  assert.deepEqual(droppedOf({ messages: [{ ...hi, name: "bob", audio: null }] }), ["messages.name"]);
  const wrong = {
    temperature: "hot",
    n: "two",
    verbosity: 7,
    reasoning_effort: "huge",
    response_format: { type: "x" },
  };
  assert.deepEqual(new Set(droppedOf(wrong)), new Set(Object.keys(wrong)));
});

test("the end user: safety_identifier, else user; a prompt_cache_key is shared by users and names none", () => {
  assert.equal(read({ user: "a" }).endUser, "a");
  assert.equal(read({ safety_identifier: "b", user: "a" }).endUser, "b");
  assert.deepEqual(droppedOf({ safety_identifier: "b", user: "a" }), ["user"]);
  assert.equal(read({ prompt_cache_key: "k" }).endUser, undefined);
});

test("searches by the provider are left out and named", () => {
  assert.deepEqual(droppedOf({ web_search_options: {} }), ["web_search_options"]);
  assert.deepEqual(droppedOf({ tools: [{ type: "web_search" }], tool_choice: "auto" }), ["tools.web_search"]);
});

const unsupported: [string, object, RegExp][] = [
  [
    "a server tool where one must be called",
    { tools: [{ type: "web_search" }], tool_choice: "required" },
    /tools\[0\]\.type/,
  ],
  ["a tool that nobody knows", { tools: [{ type: "new_tool" }] }, /tools\[0\]\.type/],
  ["audio out", { modalities: ["text", "audio"] }, /modalities/],
  ["audio of an earlier answer", { messages: [{ role: "assistant", audio: { id: "a" } }] }, /messages\[0\]\.audio/],
  ["an unknown role", { messages: [hi, { role: "critic", content: "x" }] }, /messages\[1\]\.role/],
  ["an unknown part", { messages: [{ role: "user", content: [{ type: "video_url" }] }] }, /content\[0\]\.type/],
  ["a result without its call", { messages: [{ role: "tool", content: "x" }] }, /messages\[0\]\.tool_call_id/],
  ["a file without data", { messages: [{ role: "user", content: [{ type: "file", file: {} }] }] }, /file_data/],
];

for (const [what, fields, message] of unsupported) {
  test(`${what} cannot be said in another format: the refusal names the field`, () => {
    assert.throws(
      () => read(fields),
      (error) => error instanceof UnsupportedError && message.test(error.message),
    );
  });
}

test("a body of any shape is read or refused, never anything else", () => {
  const anything = fastCheck.anything({ maxDepth: 4 });
  const part = fastCheck.record({
    type: fastCheck.constantFrom("text", "image_url", "file", "input_audio", "refusal", 7),
    text: anything,
    image_url: anything,
    file: anything,
    input_audio: anything,
    refusal: anything,
  });
  const message = fastCheck.record({
    role: fastCheck.constantFrom("user", "assistant", "tool", "function", "system", "x"),
    content: fastCheck.oneof(anything, fastCheck.array(part)),
    tool_calls: anything,
    tool_call_id: anything,
    name: anything,
    extra_content: anything,
    annotations: anything,
    function_call: anything,
    reasoning_content: anything,
  });
  const body = fastCheck.record(
    {
      messages: fastCheck.oneof(anything, fastCheck.array(message)),
      tools: anything,
      functions: anything,
      tool_choice: anything,
      stop: anything,
      response_format: anything,
      n: anything,
      modalities: anything,
      logprobs: anything,
      user: anything,
      max_tokens: anything,
    },
    { requiredKeys: [] },
  );
  fastCheck.assert(
    fastCheck.property(body, (fields) => {
      try {
        readRequest(fields);
      } catch (error) {
        assert.ok(error instanceof UnsupportedError, String(error));
      }
    }),
    { numRuns: 1000 },
  );
});
