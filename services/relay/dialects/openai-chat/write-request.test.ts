import assert from "node:assert/strict";
import { test } from "node:test";
import fastCheck from "fast-check";
import { UnsupportedError, type Conversation, type Part, type Quirk, type Target, type Turn } from "../conversation.ts";
import type { WrittenRequest } from "../conversion.ts";
import { member } from "../dialect.ts";
import { readRequest } from "./read-request.ts";
import { writeRequest } from "./write-request.ts";

const plain: Conversation = { turns: [], tools: [], stopSequences: [], isStream: false, wantsStreamUsage: false };
const targetOf = (...quirks: Quirk[]): Target => ({ model: "up", maxOutputTokens: 1000, quirks: new Set(quirks) });
const write = (fields: Partial<Conversation>, ...quirks: Quirk[]): WrittenRequest =>
  writeRequest({ ...plain, ...fields }, targetOf(...quirks));
const settingsOf = (fields: Partial<Conversation>, ...quirks: Quirk[]): object => {
  const { model: _, messages: __, ...settings } = write(fields, ...quirks).body;
  return settings;
};
const messagesOf = (turns: Turn[], ...quirks: Quirk[]): unknown => write({ turns }, ...quirks).body["messages"];
const lossesOf = (fields: Partial<Conversation>, ...quirks: Quirk[]): string[] => [...write(fields, ...quirks).losses];
const said = (...parts: Part[]): Turn => ({ role: "user", parts });
const answered = (...parts: Part[]): Turn => ({ role: "assistant", parts });
const text = (words: string): Part => ({ kind: "text", text: words });
const png = { kind: "base64", mediaType: "image/png", data: "iVBORw==" } as const;
const image = { kind: "image", source: png } as const;
const imageUrl = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw==" } };

test("roles: system turns are developer's, or system's for servers that do not know developer", () => {
  const turns: Turn[] = [{ role: "system", parts: [text("one"), text("two")] }, said(text("Hi"))];
  const user = { role: "user", content: "Hi" };
  assert.deepEqual(messagesOf(turns), [{ role: "developer", content: "one\n\ntwo" }, user]);
  assert.deepEqual(messagesOf(turns, "no-developer-role"), [{ role: "system", content: "one\n\ntwo" }, user]);
});

test("trap 23 (images of results): text in the tool messages, media in one user message behind the whole run", () => {
  const turns = [
    answered({ kind: "call", id: "a", name: "look", input: "{}" }, { kind: "call", id: "b", name: "look", input: "" }),
    said(
      { kind: "result", callId: "a", parts: [{ kind: "text", text: "A cat" }, image], isError: false },
      { kind: "result", callId: "b", parts: [image], isError: false },
      text("What is it?"),
    ),
  ];
  const messages = messagesOf(turns);
  assert.deepEqual(Array.isArray(messages) && messages.slice(1), [
    { role: "tool", tool_call_id: "a", content: "A cat" },
    { role: "tool", tool_call_id: "b", content: "See the next user message." },
    {
      role: "user",
      content: [
        { type: "text", text: "From the result of the tool call a:" },
        imageUrl,
        { type: "text", text: "From the result of the tool call b:" },
        imageUrl,
      ],
    },
    { role: "user", content: "What is it?" },
  ]);
});

test("trap 23: results in turns one after the other are one run too", () => {
  const result = (callId: string): Part => ({ kind: "result", callId, parts: [image], isError: false });
  const roles = messagesOf([said(result("a")), said(result("b"))]);
  assert.deepEqual(Array.isArray(roles) && roles.map((message) => member(message, "role")), ["tool", "tool", "user"]);
});

test("a result that is an error says so, once, because chat has no mark for it", () => {
  const result = (words: string): Part => ({
    kind: "result",
    callId: "a",
    parts: [{ kind: "text", text: words }],
    isError: true,
  });
  assert.deepEqual(messagesOf([said(result("no clock"))]), [
    { role: "tool", tool_call_id: "a", content: "Error: no clock" },
  ]);
  assert.deepEqual(messagesOf([said(result("Error: x"))]), [{ role: "tool", tool_call_id: "a", content: "Error: x" }]);
  const silent: Part = { kind: "result", callId: "a", parts: [], isError: true };
  assert.deepEqual(messagesOf([said(silent)]), [{ role: "tool", tool_call_id: "a", content: "Error: " }]);
});

test("traps 25, 26 (empty content beside calls, empty arguments): content vanishes, arguments are an object", () => {
  assert.deepEqual(messagesOf([answered(text(""), { kind: "call", id: "a", name: "look", input: "" })]), [
    { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "look", arguments: "{}" } }] },
  ]);
  assert.deepEqual(messagesOf([answered(text("")), said(text(""))]), []);
});

test("trap 14 (ids of 64 characters): an id that does not fit is mapped alike on call and result", () => {
  const id = "call:with/odd.chars".repeat(5);
  const turns = [
    answered({ kind: "call", id, name: "look", input: "{}" }),
    said({ kind: "result", callId: id, parts: [], isError: false }),
  ];
  const messages = messagesOf(turns) as unknown[];
  const calls = member(messages[0], "tool_calls") as unknown[];
  const mapped = member(calls[0], "id");
  assert.match(String(mapped), /^[A-Za-z0-9_-]{1,64}$/);
  assert.equal(member(messages[1], "tool_call_id"), mapped);
  assert.deepEqual(messagesOf(turns), messages, "the same every time, for the provider's cache");
});

test("custom tools: their declaration, a named choice and a call", () => {
  const schema = { type: "grammar", syntax: "lark", definition: "start: WORD" };
  const format = { type: "grammar", grammar: { definition: "start: WORD", syntax: "lark" } };
  assert.deepEqual(
    settingsOf({ tools: [{ name: "sh", isFreeText: true, schema }], toolChoice: { kind: "required", names: ["sh"] } }),
    {
      tools: [{ type: "custom", custom: { name: "sh", format } }],
      tool_choice: { type: "custom", custom: { name: "sh" } },
    },
  );
  assert.deepEqual(messagesOf([answered({ kind: "call", id: "a", name: "sh", input: "ls", isFreeText: true })]), [
    { role: "assistant", tool_calls: [{ id: "a", type: "custom", custom: { name: "sh", input: "ls" } }] },
  ]);
});

const tools = [{ name: "a" }, { name: "b", description: "B", schema: { type: "object" }, isStrict: true }];

test("trap 29 (tool_choice, allowed_tools and parallel_tool_calls get lost): all are written", () => {
  const choose = (toolChoice: Conversation["toolChoice"] & object, ...quirks: Quirk[]): unknown =>
    member(settingsOf({ tools, toolChoice }, ...quirks), "tool_choice");
  const named = (name: string): object => ({ type: "function", function: { name } });
  assert.equal(choose({ kind: "none" }), "none");
  assert.equal(choose({ kind: "required" }), "required");
  assert.deepEqual(choose({ kind: "required", names: ["a"] }), named("a"));
  const allowed = { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [named("a"), named("b")] } };
  assert.deepEqual(choose({ kind: "auto", names: ["a", "b"] }), allowed);
  assert.equal(choose({ kind: "required" }, "no-forced-tool"), "auto");
  assert.deepEqual(lossesOf({ tools, toolChoice: { kind: "required" } }, "no-forced-tool"), ["toolChoice"]);
  assert.equal(member(settingsOf({ tools, allowsParallelCalls: false }), "parallel_tool_calls"), false);
});

test("without tools there is no choice of them: it is refused everywhere", () => {
  assert.deepEqual(settingsOf({ toolChoice: { kind: "auto" }, allowsParallelCalls: false }), {});
  assert.deepEqual(lossesOf({ toolChoice: { kind: "auto" } }), []);
  assert.deepEqual(lossesOf({ toolChoice: { kind: "required" } }), ["toolChoice"]);
});

test("trap 30 (unstable tool order kills the cache): tools keep their order, and the same conversation its bytes", () => {
  const written = JSON.stringify(write({ tools, turns: [said(text("Hi"))] }).body);
  assert.equal(JSON.stringify(write({ tools, turns: [said(text("Hi"))] }).body), written);
  assert.ok(written.indexOf('"name":"a"') < written.indexOf('"name":"b"'));
});

test("trap 30 (cache_control vanishes): marks where the model takes them, else named as lost", () => {
  const marked: Turn = said(
    { kind: "text", text: "a", cache: { ttl: "5m" } },
    { kind: "text", text: "b", cache: { ttl: "1h" } },
  );
  assert.deepEqual(messagesOf([marked], "cache-breakpoints"), [
    {
      role: "user",
      content: [
        { type: "text", text: "a", prompt_cache_breakpoint: { mode: "explicit" } },
        { type: "text", text: "b", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
      ],
    },
  ]);
  assert.deepEqual(lossesOf({ turns: [marked] }), ["cache"]);
  assert.deepEqual(lossesOf({ tools: [{ name: "a", cache: { ttl: "5m" } }] }, "cache-breakpoints"), ["cache"]);
});

test("trap 31 (maximum of output): in the words that the server knows, never beyond what the model writes", () => {
  assert.deepEqual(settingsOf({ maxOutputTokens: 10 }), { max_completion_tokens: 10 });
  assert.deepEqual(settingsOf({ maxOutputTokens: 10 }, "max-completion-tokens"), { max_completion_tokens: 10 });
  assert.deepEqual(settingsOf({ maxOutputTokens: 10 }, "max-tokens"), { max_tokens: 10 });
  assert.deepEqual(settingsOf({ maxOutputTokens: 64_000 }), { max_completion_tokens: 1000 });
});

test("sampling: written, or named as lost where the model refuses it", () => {
  const sampling = { temperature: 0.5, topP: 0.9, presencePenalty: 0.1, frequencyPenalty: 0.2 };
  const fields = { temperature: 0.5, top_p: 0.9, presence_penalty: 0.1, frequency_penalty: 0.2 };
  assert.deepEqual(settingsOf(sampling), fields);
  assert.deepEqual(settingsOf(sampling, "no-sampling"), {});
  assert.deepEqual(lossesOf(sampling, "no-sampling"), Object.keys(sampling));
  assert.deepEqual(lossesOf({ topK: 40 }), ["topK"]);
});

test("logprobs: asked for with as many alternatives as OpenAI gives, or named where the model refuses them", () => {
  assert.deepEqual(settingsOf({ topLogprobs: 0 }), { logprobs: true });
  assert.deepEqual(settingsOf({ topLogprobs: 3 }), { logprobs: true, top_logprobs: 3 });
  assert.deepEqual(settingsOf({ topLogprobs: 50 }), { logprobs: true, top_logprobs: 20 });
  assert.deepEqual([lossesOf({ topLogprobs: 20 }), lossesOf({ topLogprobs: 50 })], [[], ["logprobs"]]);
  assert.deepEqual(settingsOf({ topLogprobs: 3 }, "no-sampling"), {});
  assert.deepEqual(lossesOf({ topLogprobs: 3 }, "no-sampling"), ["logprobs"]);
});

test("seed, choices, stop sequences, verbosity and formats of output", () => {
  assert.deepEqual(settingsOf({ seed: 7, choices: 2, stopSequences: ["a"], verbosity: "low" }), {
    seed: 7,
    n: 2,
    stop: ["a"],
    verbosity: "low",
  });
  assert.deepEqual(settingsOf({ choices: 1 }), {});
  const many = { stopSequences: ["a", "b", "c", "d", "e"] };
  assert.deepEqual([settingsOf(many), lossesOf(many)], [{ stop: ["a", "b", "c", "d"] }, ["stopSequences"]]);
  assert.deepEqual(lossesOf({ verbosity: "endless" }), ["verbosity"]);
  assert.deepEqual(settingsOf({ outputFormat: { kind: "json" } }), { response_format: { type: "json_object" } });
  assert.deepEqual(settingsOf({ outputFormat: { kind: "schema", schema: {}, isStrict: true } }), {
    response_format: { type: "json_schema", json_schema: { name: "response", schema: {}, strict: true } },
  });
});

test("reasoning: an effort as it is, a budget by its size; nothing for models that do not think", () => {
  assert.deepEqual(settingsOf({ reasoning: { effort: "none" } }), { reasoning_effort: "none" });
  for (const [budgetTokens, effort] of [
    [1024, "low"],
    [8192, "medium"],
    [31_999, "high"],
  ] as const) {
    assert.deepEqual(settingsOf({ reasoning: { budgetTokens } }), { reasoning_effort: effort });
  }
  assert.deepEqual(settingsOf({ reasoning: { effort: "high" } }, "no-thinking"), {});
  assert.deepEqual(lossesOf({ reasoning: { effort: "high" } }, "no-thinking"), ["reasoning"]);
  assert.deepEqual(lossesOf({ reasoning: { effort: "none" } }, "no-thinking"), []);
});

test("the end user: safety_identifier, user for older servers, shortened to the 64 characters that are taken", () => {
  assert.deepEqual(settingsOf({ endUser: "u" }), { safety_identifier: "u" });
  assert.deepEqual(settingsOf({ endUser: "u" }, "max-tokens"), { user: "u" });
  const shortened = member(settingsOf({ endUser: "u".repeat(150) }), "safety_identifier");
  assert.match(String(shortened), /^user_[0-9a-f]{32}$/);
});

test("trap 9 (ask upstream for usage always, only with stream true, only servers that accept it)", () => {
  assert.deepEqual(settingsOf({ isStream: true }), { stream: true, stream_options: { include_usage: true } });
  assert.deepEqual(settingsOf({ isStream: true }, "no-stream-options"), { stream: true });
  assert.deepEqual(settingsOf({ wantsStreamUsage: true }), {});
});

test("thinking goes back only to servers that take it; state of another issuer to nobody", () => {
  const opaque = { issuer: "anthropic-messages", value: "sig" } as const;
  const turn = answered({ kind: "thinking", text: "Hm.", opaque }, text("Yes."));
  assert.deepEqual(messagesOf([turn]), [{ role: "assistant", content: "Yes." }]);
  assert.deepEqual(lossesOf({ turns: [turn] }), ["opaqueState", "thinking"]);
  assert.deepEqual(messagesOf([turn], "reasoning-content"), [
    { role: "assistant", content: "Yes.", reasoning_content: "Hm." },
  ]);
  assert.deepEqual(lossesOf({ turns: [turn] }, "reasoning-content"), ["opaqueState"]);
});

test("trap 13 (thought signatures): only where Google's endpoint takes them", () => {
  const opaque = { issuer: "gemini-generate", value: "sig" } as const;
  const turn = answered({ kind: "call", id: "a", name: "look", input: "{}", opaque });
  assert.ok(!JSON.stringify(messagesOf([turn])).includes("sig"));
  assert.deepEqual(lossesOf({ turns: [turn] }), ["opaqueState"]);
  const call = { id: "a", type: "function", function: { name: "look", arguments: "{}" } };
  assert.deepEqual(messagesOf([turn], "thought-signatures"), [
    { role: "assistant", tool_calls: [{ ...call, extra_content: { google: { thought_signature: "sig" } } }] },
  ]);
});

test("state of another issuer does not go where thought signatures do", () => {
  const opaque = { issuer: "openai-responses", value: "sig" } as const;
  const turn = answered({ kind: "text", text: "x", opaque });
  assert.deepEqual(messagesOf([turn], "thought-signatures"), [{ role: "assistant", content: "x" }]);
  assert.deepEqual(lossesOf({ turns: [turn] }, "thought-signatures"), ["opaqueState"]);
});

test("where custom tools are unknown, one of free text is a function of one text, marked by its name", () => {
  const format = { type: "grammar", syntax: "lark", definition: "start: /a/" };
  const tools = [{ name: "sh", description: "Runs.", schema: format, isFreeText: true }, { name: "look" }];
  const toolChoice: Conversation["toolChoice"] = { kind: "required", names: ["sh"] };
  const turn = answered({ kind: "call", id: "a", name: "sh", input: 'ls "x"', isFreeText: true });
  const { body, losses } = write({ tools, toolChoice, turns: [turn] }, "no-custom-tools");
  const named = { type: "function", function: { name: "relay_text__sh" } };
  const description = `Text of this format: ${JSON.stringify(format)}`;
  const parameters = { type: "object", properties: { input: { type: "string", description } }, required: ["input"] };
  assert.deepEqual(body["tools"], [
    { type: "function", function: { name: "relay_text__sh", description: "Runs.", parameters } },
    { type: "function", function: { name: "look" } },
  ]);
  assert.deepEqual(body["tool_choice"], named);
  assert.deepEqual(body["messages"], [
    {
      role: "assistant",
      tool_calls: [{ id: "a", ...named, function: { name: "relay_text__sh", arguments: '{"input":"ls \\"x\\""}' } }],
    },
  ]);
  assert.deepEqual([...losses], ["toolStrictness"]);
  for (const quirks of [[], ["no-custom-tools"]] as const) {
    assert.throws(() => write({ tools: [{ name: "relay_text__sh" }] }, ...quirks), UnsupportedError);
  }
});

test("a file of text goes as text, because chat understands no other file than PDF", () => {
  const source = { kind: "base64", mediaType: "text/plain", data: Buffer.from("hé").toString("base64") } as const;
  assert.deepEqual(messagesOf([said({ kind: "file", source, name: "a.txt" })]), [
    { role: "user", content: "a.txt:\nhé" },
  ]);
});

const id = { kind: "id", id: "file-1" } as const;
const unsupported: [string, Turn][] = [
  ["an image by its ID", said({ kind: "image", source: id })],
  ["a file by its ID", said({ kind: "file", source: id })],
  ["a file by its address", said({ kind: "file", source: { kind: "url", url: "https://files.example/a.pdf" } })],
  ["audio of another type", said({ kind: "audio", mediaType: "audio/flac", data: "" })],
  ["an image of the model", answered(image)],
  ["an image in system messages", { role: "system", parts: [image] }],
];

for (const [what, turn] of unsupported) {
  test(`${what} cannot be said in chat`, () => {
    assert.throws(() => messagesOf([turn]), UnsupportedError);
  });
}

test("read ∘ write is the identity on what chat can say", () => {
  const words = fastCheck.string({ minLength: 1 });
  const plainText = words.map((said_) => ({ kind: "text" as const, text: said_ }));
  const picture = fastCheck.constantFrom(
    { kind: "image", source: png, detail: "low" } as const,
    { kind: "image", source: { kind: "url", url: "https://pictures.example/a.png" } } as const,
    { kind: "audio", mediaType: "audio/wav", data: "UklG" } as const,
    { kind: "file", source: { kind: "base64", mediaType: "application/pdf", data: "JVBE" }, name: "a.pdf" } as const,
  );
  const user = fastCheck
    .array(fastCheck.oneof(plainText, picture), { minLength: 1 })
    .map((parts): Turn[] => [{ role: "user", parts }]);
  const system = plainText.map((part): Turn[] => [{ role: "system", parts: [part] }]);
  const worked = fastCheck.array(fastCheck.tuple(fastCheck.stringMatching(/^[\w-]{1,64}$/), words, words), {
    minLength: 1,
    maxLength: 3,
  });
  const round = fastCheck
    .tuple(fastCheck.option(plainText, { nil: undefined }), worked)
    .map(([first, calls]): Turn[] => [
      {
        role: "assistant",
        parts: [
          ...(first ? [first] : []),
          ...calls.map(([callId, name, input]): Part => ({ kind: "call", id: callId, name, input })),
        ],
      },
      {
        role: "user",
        parts: calls.map(([callId, , output]): Part => ({
          kind: "result",
          callId,
          parts: [{ kind: "text", text: output }],
          isError: false,
        })),
      },
      { role: "system", parts: [{ kind: "text", text: "next" }] },
    ]);
  const settings = fastCheck.record(
    {
      temperature: fastCheck.double({ min: 0, max: 2, noNaN: true }),
      maxOutputTokens: fastCheck.integer({ min: 1, max: 1000 }),
      choices: fastCheck.integer({ min: 2, max: 8 }),
      seed: fastCheck.nat(),
      verbosity: fastCheck.constantFrom("low", "medium", "high"),
      reasoning: fastCheck.constantFrom({ effort: "none" }, { effort: "max" }),
      endUser: fastCheck.string({ minLength: 1, maxLength: 64 }),
      toolChoice: fastCheck.constantFrom(
        { kind: "none" },
        { kind: "required", names: ["a"] },
        { kind: "auto", names: ["a"] },
      ),
      allowsParallelCalls: fastCheck.boolean(),
    },
    { requiredKeys: [], noNullPrototype: true },
  );
  const turns = fastCheck.array(fastCheck.oneof(user, system, round)).map((list) => list.flat());
  fastCheck.assert(
    fastCheck.property(turns, settings, (said_, wanted) => {
      const conversation = { ...plain, tools, ...wanted, turns: said_ } as Conversation;
      const { body, losses } = writeRequest(conversation, targetOf());
      const back = readRequest(JSON.parse(JSON.stringify(body)) as Record<string, unknown>);
      assert.deepEqual([...losses, ...back.dropped], []);
      assert.deepEqual(back.conversation, conversation);
    }),
  );
});
