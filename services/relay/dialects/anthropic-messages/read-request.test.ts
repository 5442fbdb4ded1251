import assert from "node:assert/strict";
import { test } from "node:test";
import { UnsupportedError, type Conversation, type Part } from "../conversation.ts";
import { wrapOpaque } from "../opaque.ts";
import { readRequest } from "./read-request.ts";
import { writeAttached, writeSignature } from "./thinking-state.ts";

const base = { model: "m", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] };
const read = (fields: Record<string, unknown>): Conversation => readRequest({ ...base, ...fields }).conversation;
const droppedOf = (fields: Record<string, unknown>): string[] =>
  [...readRequest({ ...base, ...fields }).dropped].toSorted();
const saying = (role: string, ...content: unknown[]): Record<string, unknown> => ({ messages: [{ role, content }] });
const partsOf = (role: string, ...content: unknown[]): Part[] | undefined =>
  read(saying(role, ...content)).turns[0]?.parts;
const unsupported = (fields: Record<string, unknown>, names: RegExp): void =>
  assert.throws(
    () => readRequest({ ...base, ...fields }),
    (error: unknown) => error instanceof UnsupportedError && names.test(error.message),
  );

test("a plain request says what it says and nothing more", () => {
  assert.deepEqual(readRequest(base), {
    conversation: {
      turns: [{ role: "user", parts: [{ kind: "text", text: "Hi" }] }],
      tools: [],
      maxOutputTokens: 100,
      stopSequences: [],
      isStream: false,
      wantsStreamUsage: true,
    },
    dropped: new Set(),
  });
});

test("system is a first turn, as a string or as blocks; later system messages stay where they are", () => {
  assert.deepEqual(read({ system: "Be brief." }).turns[0], {
    role: "system",
    parts: [{ kind: "text", text: "Be brief." }],
  });
  const blocks = [{ type: "text", text: "A", cache_control: { type: "ephemeral", ttl: "1h" } }];
  const later = [...base.messages, { role: "system", content: "Now in French." }];
  assert.deepEqual(
    read({ system: blocks, messages: later }).turns.map(({ role, parts }) => [role, parts[0]]),
    [
      ["system", { kind: "text", text: "A", cache: { ttl: "1h" } }],
      ["user", { kind: "text", text: "Hi" }],
      ["system", { kind: "text", text: "Now in French." }],
    ],
  );
  assert.deepEqual(
    read({ system: "" }).turns.map(({ role }) => role),
    ["user"],
  );
});

test("settings are carried under their neutral names", () => {
  const fields = {
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    stop_sequences: ["END"],
    stream: true,
    metadata: { user_id: "u-1" },
  };
  const conversation = read(fields);
  assert.deepEqual([conversation.temperature, conversation.topP, conversation.topK], [0.5, 0.9, 40]);
  assert.deepEqual(conversation.stopSequences, ["END"]);
  assert.equal(conversation.endUser, "u-1");
  assert.equal(conversation.isStream, true);
  assert.deepEqual(droppedOf(fields), []);
});

test("API spec, Messages request: inference_geo, service_tier and speed are removed and not named as dropped", () => {
  assert.deepEqual(droppedOf({ inference_geo: "us", service_tier: "auto", speed: "fast", stream: false }), []);
});

test("every field that is set and not carried is named, also within tools, metadata and blocks", () => {
  const fields = {
    thread: { type: "create" },
    context_management: {},
    temperature: "hot",
    diagnostics: null,
    metadata: { user_id: "u", team: "t" },
    output_config: { effort: "extreme", task_budget: 5 },
    thinking: { type: "between_tools" },
    tool_choice: { type: "some" },
    stop_sequences: ["a", 1],
    tools: [{ name: "t", input_schema: { type: "object" }, defer_loading: true }],
    ...saying(
      "user",
      { type: "image", source: { type: "url", url: "https://a.example/i.png" }, transformations: { a: 1 } },
      { type: "document", source: { type: "url", url: "https://a.example/d.pdf" }, citations: { enabled: true } },
      { type: "document", source: { type: "url", url: "https://a.example/d.pdf" }, citations: { enabled: false } },
    ),
  };
  assert.deepEqual(
    droppedOf(fields),
    [
      "thread",
      "context_management",
      "temperature",
      "metadata.team",
      "output_config.effort",
      "output_config.task_budget",
      "thinking",
      "tool_choice",
      "stop_sequences",
      "tools.defer_loading",
      "image.transformations",
      "document.citations",
    ].toSorted(),
  );
});

test("what a beta says of thinking and of instructions on the way is named, and instructions without words are none", () => {
  const adaptive = { type: "adaptive", display: "updates", block_binding: { prefix_mismatch_behavior: "drop_block" } };
  assert.deepEqual(droppedOf({ thinking: adaptive }), ["thinking.block_binding", "thinking.display"]);
  const messages = [
    { role: "user", content: "Hi" },
    { role: "system", content: "Be brief.", clear_at: "next_user_message" },
    { role: "system", output_config: { effort: "low" } },
  ];
  assert.deepEqual(droppedOf({ messages }), ["messages.clear_at", "messages.output_config"]);
  assert.deepEqual(
    read({ messages }).turns.map(({ role }) => role),
    ["user", "system"],
  );
});

test("what stands for state at one provider is refused by name, never dropped", () => {
  for (const container of ["container_1", { id: "container_1" }, { skills: [{ type: "custom", skill_id: "s" }] }]) {
    unsupported({ container }, /^container: cannot be used with this model/);
  }
  assert.deepEqual(droppedOf({ container: null }), []);
});

test("trap 31 (limits get lost): max_tokens is carried, and one that another provider cannot mean is refused", () => {
  assert.equal(read({ max_tokens: 7 }).maxOutputTokens, 7);
  unsupported({ max_tokens: 0 }, /max_tokens/);
});

test("images and documents of every source", () => {
  const sources = [
    { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } },
    { type: "image", source: { type: "url", url: "https://a.example/i.png" }, cache_control: { type: "ephemeral" } },
    { type: "document", source: { type: "base64", media_type: "application/pdf", data: "aGk=" }, title: "A" },
    { type: "document", source: { type: "text", media_type: "text/plain", data: "hi" } },
    { type: "document", source: { type: "url", url: "https://a.example/d.pdf" } },
    { type: "document", source: { type: "content", content: "hi" }, title: "B" },
    { type: "image", source: { type: "url", url: "data:image/gif;base64,aGk=" } },
  ];
  const text = { kind: "base64", mediaType: "text/plain", data: "aGk=" };
  assert.deepEqual(partsOf("user", ...sources), [
    { kind: "image", source: { kind: "base64", mediaType: "image/png", data: "aGk=" } },
    { kind: "image", source: { kind: "url", url: "https://a.example/i.png" }, cache: { ttl: "5m" } },
    { kind: "file", source: { kind: "base64", mediaType: "application/pdf", data: "aGk=" }, name: "A" },
    { kind: "file", source: text },
    { kind: "file", source: { kind: "url", url: "https://a.example/d.pdf" } },
    { kind: "file", source: text, name: "B" },
    { kind: "image", source: { kind: "base64", mediaType: "image/gif", data: "aGk=" } },
  ]);
});

test("a document of content blocks becomes its blocks, search results become text, marks stay on the last of them", () => {
  const document = {
    type: "document",
    title: "T",
    source: { type: "content", content: [{ type: "text", text: "one" }] },
    cache_control: { type: "ephemeral" },
  };
  const search = { type: "search_result", title: "Title", source: "https://a.example", content: [{ text: "found" }] };
  assert.deepEqual(partsOf("user", document, search), [
    { kind: "text", text: "T" },
    { kind: "text", text: "one", cache: { ttl: "5m" } },
    { kind: "text", text: "Title\nhttps://a.example\nfound" },
  ]);
});

test("calls and results: results come first, with images, errors and marks", () => {
  assert.deepEqual(partsOf("assistant", { type: "tool_use", id: "t", name: "f", input: { a: [1] } }), [
    { kind: "call", id: "t", name: "f", input: '{"a":[1]}' },
  ]);
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } };
  const results = [
    { type: "text", text: "and?" },
    { type: "tool_result", tool_use_id: "t", content: "plain", is_error: true, cache_control: { type: "ephemeral" } },
    { type: "tool_result", tool_use_id: "u", content: [{ type: "text", text: "x" }, image] },
    { type: "tool_result", tool_use_id: "v" },
  ];
  const source = { kind: "base64", mediaType: "image/png", data: "aGk=" };
  assert.deepEqual(partsOf("user", ...results), [
    { kind: "result", callId: "t", parts: [{ kind: "text", text: "plain" }], isError: true, cache: { ttl: "5m" } },
    {
      kind: "result",
      callId: "u",
      parts: [
        { kind: "text", text: "x" },
        { kind: "image", source },
      ],
      isError: false,
    },
    { kind: "result", callId: "v", parts: [], isError: false },
    { kind: "text", text: "and?" },
  ]);
});

test("thinking keeps its signature as the provider's state, redacted thinking its data", () => {
  assert.deepEqual(
    partsOf(
      "assistant",
      { type: "thinking", thinking: "hm", signature: "c2ln" },
      { type: "redacted_thinking", data: "ZGF0YQ==" },
    ),
    [
      { kind: "thinking", text: "hm", opaque: { issuer: "anthropic-messages", value: "c2ln" } },
      { kind: "thinking", text: "", opaque: { issuer: "anthropic-messages", value: "redacted.ZGF0YQ==" } },
    ],
  );
});

test("state that we gave out comes back to its issuer: on thinking, and on the text or call before redacted thinking", () => {
  const reasoning = { issuer: "openai-responses", value: "gAAAA" } as const;
  const thought = { issuer: "gemini-generate", value: "c2ln" } as const;
  assert.deepEqual(
    partsOf(
      "assistant",
      { type: "thinking", thinking: "hm", signature: wrapOpaque(reasoning) },
      { type: "redacted_thinking", data: wrapOpaque(reasoning) },
      { type: "thinking", thinking: "unsigned", signature: writeSignature(undefined) },
      { type: "text", text: "So" },
      { ...writeAttached(thought) },
      { type: "tool_use", id: "t", name: "f", input: {} },
      { ...writeAttached(thought) },
    ),
    [
      { kind: "thinking", text: "hm", opaque: reasoning },
      { kind: "thinking", text: "", opaque: reasoning },
      { kind: "thinking", text: "unsigned" },
      { kind: "text", text: "So", opaque: thought },
      { kind: "call", id: "t", name: "f", input: "{}", opaque: thought },
    ],
  );
  assert.deepEqual(partsOf("assistant", { ...writeAttached(thought) }), [{ kind: "text", text: "", opaque: thought }]);
});

test("citations of an earlier answer are carried by address and title", () => {
  const citation = { type: "web_search_result_location", url: "https://a.example", title: "T", cited_text: "c" };
  assert.deepEqual(partsOf("assistant", { type: "text", text: "x", citations: [citation] }), [
    { kind: "text", text: "x", citations: [{ url: "https://a.example", title: "T", text: "c" }] },
  ]);
});

test("trap 30 (cache_control vanishes): marks on blocks, tools, system and the request as a whole are kept", () => {
  const mark = { type: "ephemeral" };
  const tools = [{ name: "t", input_schema: { type: "object" }, cache_control: { type: "ephemeral", ttl: "1h" } }];
  const conversation = read({ tools, cache_control: mark, system: [{ type: "text", text: "s", cache_control: mark }] });
  assert.deepEqual(conversation.tools[0]?.cache, { ttl: "1h" });
  assert.deepEqual(
    conversation.turns.flatMap(({ parts }) => parts.map((part) => ("cache" in part ? part.cache : undefined))),
    [{ ttl: "5m" }, { ttl: "5m" }],
  );
});

test("trap 29 (tool_choice gets lost): each kind, and one call at most", () => {
  const choiceOf = (choice: unknown): unknown => {
    const { toolChoice, allowsParallelCalls } = read({ tool_choice: choice });
    return [toolChoice, allowsParallelCalls];
  };
  assert.deepEqual(choiceOf({ type: "auto" }), [{ kind: "auto" }, undefined]);
  assert.deepEqual(choiceOf({ type: "none" }), [{ kind: "none" }, undefined]);
  assert.deepEqual(choiceOf({ type: "any", disable_parallel_tool_use: true }), [{ kind: "required" }, false]);
  assert.deepEqual(choiceOf({ type: "tool", name: "f" }), [{ kind: "required", names: ["f"] }, undefined]);
});

test("tools with description, schema and strictness, in their order", () => {
  const schema = { type: "object", properties: { a: { type: "string" } } };
  const tools = [
    { type: "custom", name: "b", description: "d", input_schema: schema, strict: true },
    { name: "a", input_schema: schema },
  ];
  assert.deepEqual(read({ tools }).tools, [
    { name: "b", description: "d", schema, isStrict: true },
    { name: "a", schema },
  ]);
});

test("thinking and effort: budget, adaptive, disabled, display", () => {
  const reasoningOf = (thinking: unknown, effort?: string): unknown =>
    read({ thinking, ...(effort && { output_config: { effort } }) }).reasoning;
  assert.deepEqual(reasoningOf({ type: "enabled", budget_tokens: 2048 }), { budgetTokens: 2048, isShown: true });
  assert.deepEqual(reasoningOf({ type: "enabled", budget_tokens: 2048, display: "omitted" }), {
    budgetTokens: 2048,
    isShown: false,
    saysDisplay: true,
  });
  assert.deepEqual(reasoningOf({ type: "adaptive" }, "xhigh"), {
    effort: "xhigh",
    isShown: true,
    isThinking: true,
  });
  assert.deepEqual(reasoningOf({ type: "disabled" }, "high"), { effort: "none" });
  assert.deepEqual(reasoningOf(undefined, "low"), { effort: "low" });
  assert.equal(reasoningOf(undefined), undefined);
});

test("output_config.format, and output_format of its beta, say the schema of the answer", () => {
  const format = { type: "json_schema", schema: { type: "object" } };
  const outputFormat = { kind: "schema", schema: { type: "object" } };
  assert.deepEqual(read({ output_config: { format } }).outputFormat, outputFormat);
  assert.deepEqual(read({ output_format: format }).outputFormat, outputFormat);
});

test("tools that the provider runs are left out and named; but not where a tool must be called", () => {
  const types = ["web_search_20260318", "web_fetch_20260309", "code_execution_20260521", "mcp_toolset"];
  const fields = { tools: types.map((type) => ({ type, name: type })), mcp_servers: [{ url: "https://a.example" }] };
  const named = ["mcp_servers", ...types.map((type) => `tools.${type}`)];
  assert.deepEqual(droppedOf(fields), named.toSorted());
  assert.deepEqual(read(fields).tools, []);
  const any = { type: "any" };
  unsupported({ tools: fields.tools, tool_choice: any }, /web_search_20260318/);
  unsupported({ tools: fields.tools, tool_choice: { type: "tool", name: "mcp_toolset" } }, /mcp_toolset/);
  const own = { name: "look", input_schema: { type: "object" } };
  const chosen = { tools: [own, ...fields.tools], tool_choice: { type: "tool", name: "look" } };
  assert.deepEqual(read(chosen).toolChoice, { kind: "required", names: ["look"] });
  unsupported({ mcp_servers: fields.mcp_servers, tool_choice: any }, /mcp_servers/);
});

test("tools that callers run by the provider's words, what its tools left behind, and files by id are refused", () => {
  unsupported({ tools: [{ type: "bash_20250124", name: "bash" }] }, /bash_20250124/);
  unsupported(saying("assistant", { type: "server_tool_use", id: "s", name: "web_search" }), /server_tool_use/);
  unsupported(saying("assistant", { type: "web_search_tool_result", tool_use_id: "s" }), /web_search_tool_result/);
  unsupported(saying("user", { type: "container_upload", file_id: "f" }), /container_upload/);
  unsupported(saying("user", { type: "image", source: { type: "file", file_id: "f" } }), /file_id/);
  unsupported(saying("user", { type: "document", source: { type: "file", file_id: "f" } }), /file_id/);
  const reference = { type: "tool_reference", tool_name: "t" };
  unsupported(saying("user", { type: "tool_result", tool_use_id: "t", content: [reference] }), /tool_reference/);
});

test("messages that are none are refused, whatever they are", () => {
  unsupported({ messages: "Hi" }, /messages/);
  unsupported({ messages: [{ role: "robot", content: "Hi" }] }, /role/);
  unsupported({ messages: [{ role: "user", content: 7 }] }, /content/);
  unsupported({ messages: [null] }, /content/);
  unsupported(saying("user", { type: "tool_use", id: "t", name: "f", input: {} }), /tool_use/);
  unsupported(saying("assistant", { type: "tool_result", tool_use_id: "t" }), /tool_result/);
  unsupported(saying("user", { type: "image", source: { type: "base64" } }), /source/);
  unsupported({ tools: [{ input_schema: {} }] }, /name/);
});
