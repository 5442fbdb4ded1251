import type Anthropic from "@anthropic-ai/sdk";
import assert from "node:assert/strict";
import { test } from "node:test";
import { UnsupportedError, type Conversation, type Loss, type Part, type Quirk, type Turn } from "../conversation.ts";
import { writeRequest } from "./write-request.ts";

const text = (words: string): Part => ({ kind: "text", text: words });
const user = (...parts: Part[]): Turn => ({ role: "user", parts });
const assistant = (...parts: Part[]): Turn => ({ role: "assistant", parts });
const system = (words: string): Turn => ({ role: "system", parts: [text(words)] });
const call = (id: string, input = "{}"): Part => ({ kind: "call", id, name: "f", input });
const result = (callId: string): Part => ({ kind: "result", callId, parts: [], isError: false });
const tool = { name: "f", schema: { type: "object" } };

const plain: Conversation = {
  turns: [user(text("Hi"))],
  tools: [],
  stopSequences: [],
  isStream: false,
  wantsStreamUsage: false,
};

/** The client's types are of a later version, which has no sampling any more. */
type Sampling = { temperature?: number; top_p?: number; top_k?: number };
type Body = Anthropic.MessageCreateParams & Sampling;
type Written = { body: Body; losses: Loss[] };

function write(fields: Partial<Conversation>, quirks: Quirk[] = [], maxOutputTokens = 64_000): Written {
  const target = { model: "claude", maxOutputTokens, quirks: new Set(quirks) };
  const { body, losses } = writeRequest({ ...plain, ...fields }, target);
  return { body: body as unknown as Body, losses: [...losses].toSorted() };
}
const messagesOf = (...turns: Turn[]): Anthropic.MessageParam[] => write({ turns, tools: [tool] }).body.messages;
const contentOf = (...turns: Turn[]): unknown => messagesOf(...turns).at(-1)?.content;

test("API spec, Conversion between formats: max_tokens defaults to 8192 when not set", () => {
  assert.deepEqual(write({}), {
    body: {
      model: "claude",
      max_tokens: 8192,
      messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
    },
    losses: [],
  });
  assert.equal(write({}, [], 4096).body.max_tokens, 4096, "a model that writes less");
  assert.equal(write({ maxOutputTokens: 7 }).body.max_tokens, 7, "trap 31: the caller's own limit");
});

test("API spec, Conversion between formats: response_format has no effect, and is named", () => {
  const { body, losses } = write({ outputFormat: { kind: "json" } });
  assert.deepEqual(losses, ["outputFormat"]);
  assert.deepEqual(body, write({}).body);
});

test("the schema of an answer is said where the model takes it, beside the effort, closed and without constraints", () => {
  const schema = {
    type: "object",
    properties: {
      age: { type: "integer", minimum: 0, description: "In years." },
      tags: { type: "array", items: { type: "object", properties: { id: { type: "string", format: "uuid" } } } },
      kind: { oneOf: [{ const: "a" }, { type: "string", format: "regex" }] },
    },
  };
  const outputFormat = { kind: "schema", name: "n", schema, isStrict: false } as const;
  const asked = { ...plain, outputFormat, reasoning: { effort: "high" } } as const;
  const target = { model: "claude", maxOutputTokens: 64_000, quirks: new Set(["adaptive-thinking"] as const) };
  const { body, losses } = writeRequest(asked, { ...target, takesOutputFormat: true });
  assert.deepEqual([...losses], []);
  const written = {
    type: "object",
    properties: {
      age: { type: "integer", description: "In years.\n{minimum: 0}" },
      tags: {
        type: "array",
        items: { type: "object", properties: { id: { type: "string", format: "uuid" } }, additionalProperties: false },
      },
      kind: { anyOf: [{ const: "a" }, { type: "string", description: '{format: "regex"}' }] },
    },
    additionalProperties: false,
  };
  assert.deepEqual(body["output_config"], { effort: "high", format: { type: "json_schema", schema: written } });
  const json = writeRequest({ ...plain, outputFormat: { kind: "json" } }, { ...target, takesOutputFormat: true });
  assert.deepEqual([...json.losses], ["outputFormat"]);
});

test("what this format cannot say is named; values that change nothing are not", () => {
  const unsaid = {
    presencePenalty: 1,
    frequencyPenalty: 1,
    choices: 2,
    seed: 1,
    topLogprobs: 0,
    verbosity: "low",
    outputFormat: { kind: "schema" as const, schema: {} },
  };
  const { body, losses } = write(unsaid);
  assert.deepEqual(losses, [
    "choices",
    "frequencyPenalty",
    "logprobs",
    "outputFormat",
    "presencePenalty",
    "seed",
    "verbosity",
  ]);
  assert.deepEqual(body, write({}).body);
  const idle = { presencePenalty: 0, frequencyPenalty: 0, choices: 1, temperature: 1, topP: 1 };
  assert.deepEqual(write(idle, ["no-sampling"]).losses, []);
});

test("sampling: clamped to 1, one of temperature and top_p, none where the model refuses it", () => {
  assert.equal(write({ temperature: 1.7 }).body.temperature, 1);
  assert.equal(write({ temperature: 0.2, topK: 5 }).body.top_k, 5);
  const both = write({ temperature: 0.2, topP: 0.5 });
  assert.deepEqual([both.body.temperature, both.body.top_p, both.losses], [0.2, undefined, ["topP"]]);
  const idle = write({ temperature: 1, topP: 0.5 });
  assert.deepEqual([idle.body.temperature, idle.body.top_p, idle.losses], [undefined, 0.5, []]);
  const none = write({ temperature: 0.2, topP: 0.5, topK: 5 }, ["no-sampling"]);
  assert.deepEqual([none.body.temperature, none.body.top_p, none.body.top_k], [undefined, undefined, undefined]);
  assert.deepEqual(none.losses, ["temperature", "topK", "topP"]);
});

test("stop sequences, user and stream; stop sequences of blanks alone are left out", () => {
  const { body, losses } = write({ stopSequences: ["END", " \n"], endUser: "u", isStream: true });
  assert.deepEqual([body.stop_sequences, body.metadata, body.stream], [["END"], { user_id: "u" }, true]);
  assert.deepEqual(losses, ["stopSequences"]);
});

test("system turns: leading ones become system, later ones words of the next user turn", () => {
  const { body } = write({
    turns: [system("A"), system("B"), user(text("Hi")), assistant(text("Ho")), system("C"), user(text("Go"))],
  });
  assert.deepEqual(body.system, [
    { type: "text", text: "A" },
    { type: "text", text: "B" },
  ]);
  assert.deepEqual(body.messages.at(-1), {
    role: "user",
    content: [
      { type: "text", text: "C" },
      { type: "text", text: "Go" },
    ],
  });
});

test("a user speaks first, turns of one role become one, empty turns none", () => {
  const roles = (...turns: Turn[]): string[] => messagesOf(...turns).map(({ role }) => role);
  assert.deepEqual(roles(assistant(text("Ho")), user(text("Hi"))), ["user", "assistant", "user"]);
  assert.deepEqual(roles(system("only this")), ["user"]);
  assert.deepEqual(roles(user(text("a")), user(text("b")), assistant(text("c")), assistant(text("d"))), [
    "user",
    "assistant",
  ]);
  assert.deepEqual(roles(user(text("a")), assistant(text("")), user(text("b"))), ["user"]);
});

test("trap 14 (ids allow only letters, digits, _ and -): hashed alike on call and result", () => {
  const odd = "functions.f:0";
  const [, turn, answer] = messagesOf(user(text("Hi")), assistant(call(odd), call("toolu_1")), user(result(odd)));
  assert.ok(turn && answer);
  const [first, second] = turn.content as Anthropic.ToolUseBlockParam[];
  const [back] = answer.content as Anthropic.ToolResultBlockParam[];
  assert.match(first?.id ?? "", /^[A-Za-z0-9_-]{1,64}$/);
  assert.equal(back?.tool_use_id, first?.id);
  assert.equal(second?.id, "toolu_1");
});

test("trap 15 (thinking before the tool_use it led to): signed thinking of the provider itself moves there", () => {
  const own: Part = { kind: "thinking", text: "hm", opaque: { issuer: "anthropic-messages", value: "c2ln" } };
  const redacted: Part = { kind: "thinking", text: "", opaque: { issuer: "anthropic-messages", value: "redacted.ZA" } };
  assert.deepEqual(contentOf(user(text("Hi")), assistant(text("So"), call("a"), own, redacted)), [
    { type: "text", text: "So" },
    { type: "thinking", thinking: "hm", signature: "c2ln" },
    { type: "redacted_thinking", data: "ZA" },
    { type: "tool_use", id: "a", name: "f", input: {} },
  ]);
});

test("thinking of others, or of nobody, is dropped and named; also where the model does not think", () => {
  const foreign: Part = { kind: "thinking", text: "hm", opaque: { issuer: "openai-responses", value: "gAAAA" } };
  const unsigned: Part = { kind: "thinking", text: "hm" };
  const own: Part = { kind: "thinking", text: "hm", opaque: { issuer: "anthropic-messages", value: "c2ln" } };
  for (const [part, quirks] of [
    [foreign, []],
    [unsigned, []],
    [own, ["no-thinking"]],
  ] as [Part, Quirk[]][]) {
    const { body, losses } = write({ turns: [user(text("Hi")), assistant(part, text("So")), user(text("?"))] }, quirks);
    assert.deepEqual(body.messages[1]?.content, [{ type: "text", text: "So" }]);
    assert.deepEqual(losses, ["thinking"]);
  }
});

test("traps 23 and 24 (results of tools): one user turn, results first and contiguous, images where they belong", () => {
  const image: Part = { kind: "image", source: { kind: "base64", mediaType: "image/png", data: "aGk=" } };
  const shown: Part = { kind: "result", callId: "b", parts: [text("see") as never, image as never], isError: true };
  const turns = [user(text("Hi")), assistant(call("a"), call("b"))];
  const source = { type: "base64", media_type: "image/png", data: "aGk=" };
  assert.deepEqual(contentOf(...turns, user(result("a")), system("Mind."), user(shown), user(text("?"))), [
    { type: "tool_result", tool_use_id: "a" },
    {
      type: "tool_result",
      tool_use_id: "b",
      content: [
        { type: "text", text: "see" },
        { type: "image", source },
      ],
      is_error: true,
    },
    { type: "text", text: "Mind." },
    { type: "text", text: "?" },
  ]);
});

test("trap 25 (blank text blocks are rejected): they vanish, in turns, system and results", () => {
  assert.deepEqual(contentOf(user(text("Hi")), assistant(text(""), text(" \n"), call("a"))), [
    { type: "tool_use", id: "a", name: "f", input: {} },
  ]);
  assert.equal(write({ turns: [system(" "), user(text("Hi"))] }).body.system, undefined);
  const blank: Part = { kind: "result", callId: "a", parts: [{ kind: "text", text: "" }], isError: false };
  assert.deepEqual(contentOf(user(text("Hi")), assistant(call("a")), user(blank)), [
    { type: "tool_result", tool_use_id: "a" },
  ]);
  assert.deepEqual(contentOf(user(text("Hi")), assistant(text("Go on \n"))), [{ type: "text", text: "Go on" }]);
});

test("trap 26 (tool arguments): empty ones are an empty object, cut ones are kept whole and not repaired", () => {
  const inputOf = (input: string): unknown => {
    const [block] = contentOf(user(text("Hi")), assistant(call("a", input))) as Anthropic.ToolUseBlockParam[];
    return block?.input;
  };
  assert.deepEqual(inputOf(""), {});
  assert.deepEqual(inputOf(' {"a":1}'), { a: 1 });
  for (const cut of ['{"path":"/tmp', "[1]", "null", "7"]) assert.deepEqual(inputOf(cut), { INVALID_JSON: cut });
  const free: Part = { kind: "call", id: "a", name: "f", input: "*** Patch", isFreeText: true };
  const [block] = contentOf(user(text("Hi")), assistant(free)) as Anthropic.ToolUseBlockParam[];
  assert.deepEqual([block?.name, block?.input], ["relay_text__f", { input: "*** Patch" }]);
});

test("a tool of free text becomes one with a text, under a name that says so; its grammar is told in words", () => {
  const patch = { name: "patch", isFreeText: true };
  const grammar = { type: "grammar", syntax: "lark", definition: "start: x" };
  const { body, losses } = write({
    tools: [patch, { ...patch, name: "edit", schema: grammar }],
    toolChoice: { kind: "required", names: ["edit"] },
  });
  const input = { type: "string", description: `Text of this format: ${JSON.stringify(grammar)}` };
  assert.deepEqual(body.tools, [
    {
      name: "relay_text__patch",
      input_schema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] },
    },
    { name: "relay_text__edit", input_schema: { type: "object", properties: { input }, required: ["input"] } },
  ]);
  assert.deepEqual(body.tool_choice, { type: "tool", name: "relay_text__edit" });
  assert.deepEqual(losses, ["toolStrictness"]);
  assert.throws(() => write({ tools: [{ name: "relay_text__x" }] }), UnsupportedError);
});

test("tools keep order, schema and marks; strictness is named", () => {
  const tools = [
    { name: "b", description: "d", schema: { properties: {} }, isStrict: true },
    { name: "a", cache: { ttl: "1h" as const } },
  ];
  const { body, losses } = write({ tools });
  assert.deepEqual(body.tools, [
    { name: "b", description: "d", input_schema: { type: "object", properties: {} } },
    { name: "a", input_schema: { type: "object", properties: {} }, cache_control: { type: "ephemeral", ttl: "1h" } },
  ]);
  assert.deepEqual(losses, ["toolStrictness"]);
});

test("trap 29 (tool_choice, allowed_tools, parallel_tool_calls get lost): each is said", () => {
  const tools = [{ name: "f" }, { name: "g" }, { name: "h" }];
  const choose = (fields: Partial<Conversation>, quirks: Quirk[] = []): unknown[] => {
    const { body, losses } = write({ tools, ...fields }, quirks);
    return [body.tool_choice, body.tools?.map((one) => "name" in one && one.name).join(""), losses.join()];
  };
  assert.deepEqual(choose({}), [undefined, "fgh", ""]);
  assert.deepEqual(choose({ toolChoice: { kind: "auto" } }), [{ type: "auto" }, "fgh", ""]);
  assert.deepEqual(choose({ toolChoice: { kind: "none" } }), [{ type: "none" }, "fgh", ""]);
  assert.deepEqual(choose({ toolChoice: { kind: "required" } }), [{ type: "any" }, "fgh", ""]);
  const named = { toolChoice: { kind: "required" as const, names: ["g"] } };
  assert.deepEqual(choose(named), [{ type: "tool", name: "g" }, "fgh", ""]);
  assert.deepEqual(choose({ toolChoice: { kind: "required", names: ["f", "h"] } }), [{ type: "any" }, "fh", ""]);
  assert.deepEqual(choose({ toolChoice: { kind: "auto", names: ["h"] } }), [{ type: "auto" }, "h", ""]);
  assert.deepEqual(choose(named, ["no-forced-tool"]), [{ type: "auto" }, "g", "toolChoice"]);
  assert.deepEqual(choose({ allowsParallelCalls: false }), [
    { type: "auto", disable_parallel_tool_use: true },
    "fgh",
    "",
  ]);
  assert.deepEqual(choose({ tools: [], toolChoice: { kind: "required" } }), [undefined, undefined, "toolChoice"]);
});

test("tools that only the conversation knows are declared, and not to be called", () => {
  const { body } = write({ turns: [user(text("Hi")), assistant(call("a")), user(result("a"))] });
  assert.deepEqual(body.tools, [{ name: "f", input_schema: { type: "object", properties: {} } }]);
  assert.deepEqual(body.tool_choice, { type: "none" });
});

test("trap 30 (cache marks vanish): kept on every kind of block; the provider takes four, the last stay", () => {
  const marked = (words: string): Part => ({ kind: "text", text: words, cache: { ttl: "5m" } });
  const turns = [
    { role: "system" as const, parts: [marked("s")] },
    user(marked("a")),
    assistant({ ...call("c"), cache: { ttl: "5m" } } as Part),
    user({ kind: "result", callId: "c", parts: [], isError: false, cache: { ttl: "5m" } }),
  ];
  const { body, losses } = write({ turns, tools: [tool] });
  assert.equal(JSON.stringify(body).split("cache_control").length - 1, 4);
  assert.deepEqual(losses, []);
  const more = write({ turns, tools: [{ ...tool, cache: { ttl: "5m" } }] });
  assert.equal(JSON.stringify(more.body).split("cache_control").length - 1, 4);
  assert.equal(JSON.stringify(more.body.tools).includes("cache_control"), false);
  assert.deepEqual(more.losses, ["cache"]);
  const hour = { kind: "text", text: "h", cache: { ttl: "1h" } } as const;
  const ttls = (...parts: Part[]): unknown[] => {
    const [message] = write({ turns: [user(...parts)] }).body.messages;
    assert.ok(message);
    return (message.content as Anthropic.TextBlockParam[]).map(({ cache_control: control }) => control?.ttl);
  };
  assert.deepEqual(ttls(hour, marked("a")), ["1h", undefined]);
  assert.deepEqual(ttls(marked("a"), hour), [undefined, undefined], "the provider wants the longer ones first");
});

test("media: data addresses are taken apart, types that the provider does not read are refused", () => {
  const shown = (part: Part): unknown => (contentOf(user(part)) as unknown[])[0];
  const image = (mediaType: string): Part => ({ kind: "image", source: { kind: "base64", mediaType, data: "aGk=" } });
  const png = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } };
  assert.deepEqual(shown(image("image/png")), png);
  assert.deepEqual(shown({ kind: "image", source: { kind: "url", url: "data:image/png;base64,aGk=" } }), png);
  assert.deepEqual(shown(image("image/jpg")), { ...png, source: { ...png.source, media_type: "image/jpeg" } });
  assert.deepEqual(shown({ kind: "image", source: { kind: "url", url: "https://a.example/i.png" } }), {
    type: "image",
    source: { type: "url", url: "https://a.example/i.png" },
  });
  const file = (mediaType: string): Part => ({
    kind: "file",
    name: "A",
    source: { kind: "base64", mediaType, data: "aGk=" },
  });
  assert.deepEqual(shown(file("application/pdf")), {
    type: "document",
    source: { type: "base64", media_type: "application/pdf", data: "aGk=" },
    title: "A",
  });
  assert.deepEqual(shown(file("text/csv")), {
    type: "document",
    source: { type: "text", media_type: "text/plain", data: "hi" },
    title: "A",
  });
  const refused: Part[] = [
    image("image/tiff"),
    file("application/zip"),
    { kind: "image", source: { kind: "id", id: "file_1" } },
    { kind: "file", source: { kind: "id", id: "file_1" } },
    { kind: "audio", mediaType: "audio/wav", data: "aGk=" },
  ];
  for (const part of refused) assert.throws(() => contentOf(user(part)), UnsupportedError, JSON.stringify(part));
});

test("details, citations and states without a field here are named", () => {
  const source = { kind: "url", url: "https://a.example/i.png" } as const;
  const { body, losses } = write({
    turns: [
      user({ kind: "image", source, detail: "high" }),
      assistant(
        { kind: "text", text: "x", citations: [{ url: "https://a.example" }] },
        { kind: "refusal", text: "no" },
        { ...call("a"), opaque: { issuer: "gemini-generate", value: "c2ln" } } as Part,
      ),
    ],
    tools: [tool],
  });
  assert.deepEqual(losses, ["citations", "imageDetail", "opaqueState"]);
  assert.deepEqual(body.messages[1]?.content, [
    { type: "text", text: "x" },
    { type: "text", text: "no" },
    { type: "tool_use", id: "a", name: "f", input: {} },
  ]);
});
