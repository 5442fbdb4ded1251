import assert from "node:assert/strict";
import { test } from "node:test";
import type { ResponseCreateParams } from "openai/resources/responses/responses";
import { UnsupportedError, type Conversation, type Part, type Quirk, type Turn } from "../conversation.ts";
import { writeRequest } from "./write-request.ts";

const plain: Conversation = { turns: [], tools: [], stopSequences: [], isStream: false, wantsStreamUsage: false };

type Written = { body: ResponseCreateParams; losses: string[] };

function write(fields: Partial<Conversation>, ...quirks: Quirk[]): Written {
  const target = { model: "gpt", maxOutputTokens: 1000, quirks: new Set(quirks) };
  const { body, losses } = writeRequest({ ...plain, ...fields }, target);
  return { body: body as ResponseCreateParams, losses: [...losses] };
}

const writeTurns = (turns: Turn[], ...quirks: Quirk[]): Written & { input: unknown } => {
  const written = write({ turns }, ...quirks);
  return { ...written, input: written.body.input };
};
const text = (words: string) => ({ kind: "text", text: words }) as const;
const call = { kind: "call", id: "c1", name: "weather", input: "{}" } as const;
const wireCall = { type: "function_call", call_id: "c1", name: "weather", arguments: "{}" };
const own = { issuer: "openai-responses", value: "gAAA" } as const;

test("nothing is stored, and the state of reasoning comes back encrypted", () => {
  const { body } = write({ turns: [{ role: "user", parts: [text("Hi")] }], isStream: true });
  assert.deepEqual(body, {
    model: "gpt",
    input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }],
    include: ["reasoning.encrypted_content"],
    store: false,
    stream: true,
  });
});

test("a model that does not think is not asked for the state of its thoughts", () => {
  const { body, losses } = write({ reasoning: { effort: "high", isShown: true } }, "no-thinking");
  assert.equal(body.include, undefined);
  assert.equal(body.reasoning, undefined);
  assert.deepEqual(losses, ["reasoning"]);
  assert.deepEqual(write({ reasoning: { effort: "none" } }, "no-thinking").losses, []);
});

test("the system speaks as developer, and as system where that is not known", () => {
  const turns: Turn[] = [{ role: "system", parts: [text("Brief.")] }];
  const content = [{ type: "input_text", text: "Brief." }];
  assert.deepEqual(writeTurns(turns).input, [{ type: "message", role: "developer", content }]);
  assert.deepEqual(writeTurns(turns, "no-developer-role").input, [{ type: "message", role: "system", content }]);
});

test("a turn is written in its order: texts gather in a message, calls and results are items of their own", () => {
  const parts: Part[] = [text("A"), text("B"), call, text("C")];
  assert.deepEqual(writeTurns([{ role: "assistant", parts }]).input, [
    {
      type: "message",
      role: "assistant",
      content: [
        { type: "output_text", text: "A", annotations: [] },
        { type: "output_text", text: "B", annotations: [] },
      ],
    },
    wireCall,
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "C", annotations: [] }] },
  ]);
});

test("trap 14 (ids are mapped on call and result alike): an id that is too long or odd is hashed", () => {
  const id = `functions.weather:0/${"x".repeat(80)}`;
  const input = writeTurns([
    { role: "assistant", parts: [{ ...call, id }] },
    { role: "user", parts: [{ kind: "result", callId: id, parts: [text("Rain")], isError: false }] },
  ]).input as { call_id: string }[];
  assert.match(input[0]?.call_id ?? "", /^[\w-]{1,64}$/);
  assert.equal(input[0]?.call_id, input[1]?.call_id);
});

test("trap 26 (empty arguments mean an empty object)", () => {
  assert.deepEqual(writeTurns([{ role: "assistant", parts: [{ ...call, input: "" }] }]).input, [wireCall]);
});

test("results are text where they are text, parts where they are more; that they are errors is lost", () => {
  const image = { kind: "image", source: { kind: "base64", mediaType: "image/png", data: "QUJD" } } as const;
  const result = { kind: "result", callId: "c1", isError: false } as const;
  const { input, losses } = writeTurns([
    {
      role: "user",
      parts: [
        { ...result, parts: [text("Rain")], isError: true },
        { ...result, parts: [text("A"), image] },
        { ...result, parts: [] },
        { ...result, parts: [text("x")], isFreeText: true },
        text("And?"),
      ],
    },
  ]);
  assert.deepEqual(input, [
    { type: "function_call_output", call_id: "c1", output: "Rain" },
    {
      type: "function_call_output",
      call_id: "c1",
      output: [
        { type: "input_text", text: "A" },
        { type: "input_image", image_url: "data:image/png;base64,QUJD" },
      ],
    },
    { type: "function_call_output", call_id: "c1", output: "" },
    { type: "custom_tool_call_output", call_id: "c1", output: "x" },
    { type: "message", role: "user", content: [{ type: "input_text", text: "And?" }] },
  ]);
  assert.deepEqual(losses, ["resultError"]);
});

test("reasoning goes back with its state, in front of the item that it led to", () => {
  const { input, losses } = writeTurns([
    { role: "assistant", parts: [{ kind: "thinking", text: "Hm.", opaque: own }, call] },
  ]);
  assert.deepEqual(input, [
    { type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }], encrypted_content: "gAAA" },
    wireCall,
  ]);
  assert.deepEqual(losses, []);
});

test("reasoning that no item follows would be refused: it is left out and named", () => {
  const { input, losses } = writeTurns([
    { role: "assistant", parts: [call, { kind: "thinking", text: "", opaque: own }] },
  ]);
  assert.deepEqual(input, [wireCall]);
  assert.deepEqual(losses, ["thinking"]);
});

const foreignRows: [string, Part, string[]][] = [
  [
    "a signature",
    { kind: "thinking", text: "Hm.", opaque: { issuer: "anthropic-messages", value: "E" } },
    ["opaqueState", "thinking"],
  ],
  [
    "redacted thinking",
    { kind: "thinking", text: "", opaque: { issuer: "anthropic-messages", value: "E" } },
    ["opaqueState"],
  ],
  ["thoughts without state", { kind: "thinking", text: "Hm." }, ["thinking"]],
  ["a thought signature", { ...call, opaque: { issuer: "gemini-generate", value: "C" } }, ["opaqueState"]],
];
for (const [what, part, expected] of foreignRows) {
  test(`trap 19 (state works only at its issuer): ${what} of another provider stays out and is named`, () => {
    const { input, losses } = writeTurns([{ role: "assistant", parts: [part, { ...call, id: "c2" }] }]);
    assert.doesNotMatch(JSON.stringify(input), /encrypted_content|"(E|C)"/);
    assert.deepEqual(losses.toSorted(), expected);
  });
}

test("trap 25 (empty text): it is not written", () => {
  assert.deepEqual(writeTurns([{ role: "assistant", parts: [text(""), call] }]).input, [wireCall]);
});

const partRows: [string, Part, object, string[]][] = [
  [
    "an image by address",
    { kind: "image", source: { kind: "url", url: "https://a.example" }, detail: "low" },
    { type: "input_image", image_url: "https://a.example", detail: "low" },
    [],
  ],
  [
    "a detail that is not known",
    { kind: "image", source: { kind: "url", url: "https://a.example" }, detail: "vast" },
    { type: "input_image", image_url: "https://a.example" },
    ["imageDetail"],
  ],
  [
    "a file, which needs a name",
    { kind: "file", source: { kind: "base64", mediaType: "application/pdf", data: "QUJD" } },
    { type: "input_file", filename: "document.pdf", file_data: "data:application/pdf;base64,QUJD" },
    [],
  ],
  [
    "a file with a title",
    { kind: "file", source: { kind: "base64", mediaType: "application/pdf", data: "QUJD" }, name: "A study" },
    { type: "input_file", filename: "A study.pdf", file_data: "data:application/pdf;base64,QUJD" },
    [],
  ],
  [
    "a file by address, which has its own",
    { kind: "file", source: { kind: "url", url: "https://a.example/a.pdf" }, name: "b.pdf" },
    { type: "input_file", file_url: "https://a.example/a.pdf" },
    ["fileName"],
  ],
  [
    "sound",
    { kind: "audio", mediaType: "audio/mpeg", data: "SUQz" },
    { type: "input_audio", input_audio: { data: "SUQz", format: "mp3" } },
    [],
  ],
  [
    "a mark of what to cache",
    { kind: "text", text: "Long", cache: { ttl: "1h" } },
    { type: "input_text", text: "Long", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
    [],
  ],
];
for (const [what, part, expected, named] of partRows) {
  test(`content is written: ${what}`, () => {
    const { input, losses } = writeTurns([{ role: "user", parts: [part] }]);
    assert.deepEqual(input, [{ type: "message", role: "user", content: [expected] }]);
    assert.deepEqual(losses, named);
  });
}

test("what the format has no place for is refused", () => {
  const rows: Turn[] = [
    { role: "user", parts: [{ kind: "image", source: { kind: "id", id: "f" } }] },
    { role: "user", parts: [{ kind: "audio", mediaType: "audio/flac", data: "" }] },
    { role: "assistant", parts: [{ kind: "image", source: { kind: "url", url: "https://a.example" } }] },
    { role: "user", parts: [{ kind: "refusal", text: "No." }] },
  ];
  for (const turn of rows) assert.throws(() => writeTurns([turn]), UnsupportedError);
});

test("citations go back as annotations; those without an address are named", () => {
  const citations = [{ url: "https://a.example", title: "A", start: 0, end: 1 }, { text: "page 3" }];
  const { input, losses } = writeTurns([{ role: "assistant", parts: [{ kind: "text", text: "So", citations }] }]);
  const annotation = { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 1 };
  assert.deepEqual(input, [
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "So", annotations: [annotation] }] },
  ]);
  assert.deepEqual(losses, ["citations"]);
});

const schema = { type: "object", properties: {} };
const tools = [
  { name: "a", description: "Does a.", schema },
  { name: "b", isStrict: true },
  { name: "c", isFreeText: true },
];

test("a schema without properties gets none: the provider refuses objects that do not say", () => {
  const parameters = { type: "object", properties: {} };
  for (const bare of [{ type: "object" }, undefined]) {
    const [tool] = write({ tools: [{ name: "now", ...(bare && { schema: bare }) }] }).body.tools ?? [];
    assert.deepEqual(tool, { type: "function", name: "now", parameters, strict: false });
  }
});

test("tools are written flat, with strict told: left out it would mean true", () => {
  const format = { type: "grammar", grammar: { syntax: "lark", definition: "start: /a/" } };
  const { body } = write({ tools: [...tools, { name: "d", isFreeText: true, schema: format }] });
  assert.deepEqual(body.tools, [
    { type: "function", name: "a", description: "Does a.", parameters: schema, strict: false },
    { type: "function", name: "b", parameters: schema, strict: true },
    { type: "custom", name: "c" },
    { type: "custom", name: "d", format: { type: "grammar", syntax: "lark", definition: "start: /a/" } },
  ]);
});

const choiceRows: [string, Conversation["toolChoice"], unknown][] = [
  ["none", { kind: "none" }, "none"],
  ["required", { kind: "required" }, "required"],
  ["a function", { kind: "required", names: ["a"] }, { type: "function", name: "a" }],
  ["a custom tool", { kind: "required", names: ["c"] }, { type: "custom", name: "c" }],
  [
    "some of them",
    { kind: "auto", names: ["a", "c"] },
    {
      type: "allowed_tools",
      mode: "auto",
      tools: [
        { type: "function", name: "a" },
        { type: "custom", name: "c" },
      ],
    },
  ],
];
for (const [what, toolChoice, expected] of choiceRows) {
  test(`trap 29 (tool_choice, allowed_tools and parallel_tool_calls get lost): ${what} is written`, () => {
    const { body } = write({ tools, ...(toolChoice && { toolChoice }), allowsParallelCalls: false });
    assert.deepEqual(body.tool_choice, expected);
    assert.equal(body.parallel_tool_calls, false);
  });
}

test("a choice among no tools is invalid and left out; a model that cannot be forced is asked", () => {
  const none = write({ toolChoice: { kind: "required" }, allowsParallelCalls: true });
  assert.equal("tool_choice" in none.body || "parallel_tool_calls" in none.body, false);
  assert.deepEqual(none.losses, ["toolChoice"]);
  const asked = write({ tools, toolChoice: { kind: "required" } }, "no-forced-tool");
  assert.equal(asked.body.tool_choice, "auto");
  assert.deepEqual(asked.losses, ["toolChoice"]);
});

const reasoningRows: [string, Conversation["reasoning"], unknown][] = [
  ["an effort", { effort: "xhigh" }, { effort: "xhigh" }],
  ["shown thoughts", { effort: "low", isShown: true }, { effort: "low", summary: "auto" }],
  ["shown thoughts alone", { isShown: true }, { summary: "auto" }],
  ["hidden thoughts", { effort: "low", isShown: false }, { effort: "low" }],
  ["a small budget", { budgetTokens: 1024 }, { effort: "low" }],
  ["a budget", { budgetTokens: 8000, isShown: true }, { effort: "medium", summary: "auto" }],
  ["a large budget", { budgetTokens: 32_000 }, { effort: "high" }],
  ["no thoughts", { effort: "none", isShown: true }, { effort: "none" }],
];
for (const [what, reasoning, expected] of reasoningRows) {
  test(`trap 18 (thinking text exists only with a summary requested): ${what}`, () => {
    assert.deepEqual(write({ ...(reasoning && { reasoning }) }).body.reasoning, expected);
  });
}

test("the answer's format and verbosity are those of text", () => {
  const format = { kind: "schema", name: "x", description: "An x.", schema, isStrict: true } as const;
  assert.deepEqual(write({ outputFormat: format, verbosity: "low" }).body.text, {
    format: { type: "json_schema", name: "x", description: "An x.", schema, strict: true },
    verbosity: "low",
  });
  assert.deepEqual(write({ outputFormat: { kind: "json" } }).body.text, { format: { type: "json_object" } });
  assert.deepEqual(write({ outputFormat: { kind: "schema", schema } }).body.text, {
    format: { type: "json_schema", name: "answer", schema },
  });
  assert.deepEqual(write({ verbosity: "endless" }).losses, ["verbosity"]);
});

test("trap 31 (limits dropped): the limit is written, at most what the model can write", () => {
  assert.equal(write({ maxOutputTokens: 50 }).body.max_output_tokens, 50);
  assert.equal(write({ maxOutputTokens: 5000 }).body.max_output_tokens, 1000);
  assert.equal("max_output_tokens" in write({}).body, false);
});

test("sampling is written, but not to models that refuse it", () => {
  const { body } = write({ temperature: 0.2, topP: 0.9 });
  assert.deepEqual([body.temperature, body.top_p], [0.2, 0.9]);
  const refused = write({ temperature: 0.2, topP: 0.9 }, "no-sampling");
  assert.equal("temperature" in refused.body || "top_p" in refused.body, false);
  assert.deepEqual(refused.losses, ["temperature", "topP"]);
});

test("what the format has no field for is named", () => {
  const { losses } = write({
    topK: 3,
    presencePenalty: 1,
    frequencyPenalty: 1,
    seed: 7,
    choices: 2,
    stopSequences: ["END"],
  });
  const expected = ["choices", "frequencyPenalty", "presencePenalty", "seed", "stopSequences", "topK"];
  assert.deepEqual(losses.toSorted(), expected);
  assert.deepEqual(write({ choices: 1 }).losses, []);
});

test("logprobs: included with as many alternatives as OpenAI gives, or named where the model refuses them", () => {
  const { include, top_logprobs: none } = write({ topLogprobs: 0 }).body;
  const included = ["reasoning.encrypted_content", "message.output_text.logprobs"];
  assert.deepEqual([include, none], [included, undefined]);
  assert.equal(write({ topLogprobs: 3 }).body.top_logprobs, 3);
  const many = write({ topLogprobs: 50 });
  assert.deepEqual([many.body.top_logprobs, many.losses], [20, ["logprobs"]]);
  assert.deepEqual(write({ topLogprobs: 3 }, "no-thinking").body.include, included.slice(1));
  const refused = write({ topLogprobs: 3 }, "no-sampling");
  assert.deepEqual([refused.body.include, refused.losses], [included.slice(0, 1), ["logprobs"]]);
  assert.equal("top_logprobs" in refused.body, false);
});

test("the caller's user is told, hashed where it is longer than the provider takes", () => {
  assert.equal(write({ endUser: "u1" }).body.safety_identifier, "u1");
  const long = write({ endUser: "user_".padEnd(150, "x") }).body.safety_identifier ?? "";
  assert.match(long, /^[0-9a-f]{32}$/);
});
