import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  UnsupportedError,
  type CallPart,
  type Conversation,
  type Part,
  type ResultPart,
  type Turn,
} from "../conversation.ts";
import { embedFetched, urlsToFetch } from "../fetched-media.ts";
import { writeRequest } from "./write-request.ts";

const asking = (...turns: Turn[]): Conversation => ({
  turns,
  tools: [],
  stopSequences: [],
  isStream: false,
  wantsStreamUsage: false,
});
const user = (...parts: Part[]): Turn => ({ role: "user", parts });
const assistant = (...parts: Part[]): Turn => ({ role: "assistant", parts });
const system = (...parts: Part[]): Turn => ({ role: "system", parts });
const text = (words: string): Part => ({ kind: "text", text: words });
const call = (id: string, name = "f", more: Partial<CallPart> = {}): CallPart => ({
  kind: "call",
  id,
  name,
  input: "{}",
  ...more,
});
const result = (callId: string, more: Partial<ResultPart> = {}): ResultPart => ({
  kind: "result",
  callId,
  parts: [{ kind: "text", text: "ok" }],
  isError: false,
  ...more,
});

const write = (conversation: Conversation, model = "gemini-3-flash") =>
  writeRequest(conversation, { model, maxOutputTokens: 65_536, quirks: new Set() });
const contentsOf = (turns: Turn[], model?: string): unknown => write(asking(...turns), model).body["contents"];
const lossesOf = (...turns: Turn[]): string[] => [...write(asking(...turns)).losses];

const hi = { role: "user", parts: [{ text: "hi" }] };
const filler = "skip_thought_signature_validator";

test("roles are user and model, neighbours of one role become one turn, empty texts vanish", () => {
  const turns = [
    user(text("a")),
    user(text("b"), text("")),
    assistant(text("")),
    assistant(text("c")),
    user(text("d")),
  ];
  assert.deepEqual(contentsOf(turns), [
    { role: "user", parts: [{ text: "a" }, { text: "b" }] },
    { role: "model", parts: [{ text: "c" }] },
    { role: "user", parts: [{ text: "d" }] },
  ]);
});

test("system turns from anywhere make the system instruction, in their order", () => {
  const { body } = write(asking(system(text("one"), text("")), user(text("hi")), system(text("two"))));
  assert.deepEqual(body["systemInstruction"], { parts: [{ text: "one" }, { text: "two" }] });
  assert.deepEqual(body["contents"], [hi]);
});

test("a conversation that does not begin with the user gets a placeholder before it", () => {
  const before = { role: "user", parts: [{ text: "." }] };
  assert.deepEqual(contentsOf([assistant(text("x"))]), [before, { role: "model", parts: [{ text: "x" }] }]);
  assert.deepEqual(contentsOf([system(text("only"))]), [before]);
});

test("pictures, files and sound are inline data; what their format loses is named", () => {
  const source = { kind: "base64", mediaType: "image/png", data: "AAAA" } as const;
  const pdf = { kind: "base64", mediaType: "application/pdf", data: "BBBB" } as const;
  const turn = user(
    { kind: "image", source, detail: "auto" },
    { kind: "file", source: pdf, name: "a.pdf" },
    { kind: "audio", mediaType: "audio/wav", data: "CCCC" },
  );
  assert.deepEqual(contentsOf([turn]), [
    {
      role: "user",
      parts: [
        { inlineData: { mimeType: "image/png", data: "AAAA" } },
        { inlineData: { mimeType: "application/pdf", data: "BBBB" } },
        { inlineData: { mimeType: "audio/wav", data: "CCCC" } },
      ],
    },
  ]);
  assert.deepEqual(lossesOf(turn), ["fileName"]);
  assert.deepEqual(lossesOf(user({ kind: "image", source, detail: "low" })), ["imageDetail"]);
});

test("addresses are named for fetching, each once, and refused when they reach the writer", () => {
  const url = (address: string): Part => ({ kind: "image", source: { kind: "url", url: address } });
  const inResult = result("c", { parts: [{ kind: "file", source: { kind: "url", url: "https://b.example/" } }] });
  const turns = [user(url("https://a.example/"), url("https://a.example/")), assistant(call("c")), user(inResult)];
  const conversation = asking(...turns);
  assert.deepEqual(urlsToFetch(conversation), ["https://a.example/", "https://b.example/"]);
  assert.throws(() => write(conversation), UnsupportedError);
  const fetched = { mediaType: "image/png", data: "AAAA" };
  const embedded = embedFetched(conversation, new Map(urlsToFetch(conversation).map((address) => [address, fetched])));
  assert.deepEqual(urlsToFetch(embedded), []);
  assert.equal(JSON.stringify(write(embedded).body).match(/"inlineData":\{"mimeType":"image\/png"/g)?.length, 3);
  assert.throws(() => contentsOf([user({ kind: "image", source: { kind: "id", id: "file-1" } })]), UnsupportedError);
});

test("trap 13 (Gemini 3 rejects replayed calls without their signature): own signatures stand on their parts", () => {
  const opaque = { issuer: "gemini-generate", value: "s1" } as const;
  const parts = [call("a", "f", { opaque }), call("b"), { kind: "text", text: "", opaque } as const];
  const [, model] = contentsOf([user(text("hi")), assistant(...parts)]) as { parts: unknown[] }[];
  assert.deepEqual(model?.parts, [
    { functionCall: { id: "a", name: "f", args: {} }, thoughtSignature: "s1" },
    { functionCall: { id: "b", name: "f", args: {} } },
    { text: "", thoughtSignature: "s1" },
  ]);
});

test("trap 13 (history from another model has none): the first of parallel calls gets the filler, from Gemini 3 on", () => {
  const opaque = { issuer: "openai-responses", value: "theirs" } as const;
  const turns = [user(text("hi")), assistant(call("a", "f", { opaque }), call("b"))];
  const calls = (...signatures: object[]): object => ({
    role: "model",
    parts: ["a", "b"].map((id, at) => ({ functionCall: { id, name: "f", args: {} }, ...signatures[at] })),
  });
  assert.deepEqual(contentsOf(turns), [hi, calls({ thoughtSignature: filler })]);
  assert.deepEqual(contentsOf(turns, "gemini-2.5-pro"), [hi, calls()]);
  assert.deepEqual(lossesOf(...turns), ["opaqueState"]);
});

test("trap 13: a signature of a thought goes back on the thought", () => {
  const signed: Part = { kind: "thinking", text: "hm", opaque: { issuer: "gemini-generate", value: "s1" } };
  assert.deepEqual(contentsOf([user(text("hi")), assistant(signed, text("x"))]), [
    hi,
    { role: "model", parts: [{ text: "hm", thought: true, thoughtSignature: "s1" }, { text: "x" }] },
  ]);
});

test("thinking of another provider is dropped with its state, and named; plain thoughts stay thoughts", () => {
  const foreign: Part = { kind: "thinking", text: "hm", opaque: { issuer: "anthropic-messages", value: "sig" } };
  const turns = [user(text("hi")), assistant(foreign, text("x"))];
  assert.deepEqual(contentsOf(turns), [hi, { role: "model", parts: [{ text: "x" }] }]);
  assert.deepEqual(lossesOf(...turns), ["opaqueState", "thinking"]);
  const redacted: Part = { ...foreign, text: "" };
  assert.deepEqual(lossesOf(user(text("hi")), assistant(redacted)), ["opaqueState"]);
  const plain: Part = { kind: "thinking", text: "hm" };
  assert.deepEqual(contentsOf([user(text("hi")), assistant(plain)]), [
    hi,
    { role: "model", parts: [{ text: "hm", thought: true }] },
  ]);
});

test("results name their function, stand in one turn right behind the calls, and say errors as errors", () => {
  const turns = [
    assistant(call("a", "one"), call("b", "two", { input: ' {"x":1}' }), call("c", "3rd", { input: "" })),
    user(result("b", { isError: true })),
    user(result("a", { parts: [] }), result("c")),
    user(text("and?")),
  ];
  const response = (id: string, name: string, given: object): object => ({
    functionResponse: { id, name, response: given },
  });
  assert.deepEqual(contentsOf([user(text("hi")), ...turns], "gemini-2.5-flash"), [
    hi,
    {
      role: "model",
      parts: [
        { functionCall: { id: "a", name: "one", args: {} } },
        { functionCall: { id: "b", name: "two", args: { x: 1 } } },
        { functionCall: { id: "c", name: "_relay.3rd", args: {} } },
      ],
    },
    {
      role: "user",
      parts: [
        response("b", "two", { error: "ok" }),
        response("a", "one", { result: "" }),
        response("c", "_relay.3rd", { result: "ok" }),
        { text: "and?" },
      ],
    },
  ]);
  assert.throws(() => contentsOf([user(result("unknown"))]), UnsupportedError);
});

test("trap 14 (map by deterministic hash on call and result alike): odd ids are the same on both", () => {
  const turns = [assistant(call("odd id/1")), user(result("odd id/1"))];
  const ids = JSON.stringify(contentsOf(turns)).match(/"id":"[^"]*"/g) ?? [];
  assert.equal(ids.length, 2);
  assert.equal(new Set(ids).size, 1);
  assert.match(ids[0], /^"id":"[A-Za-z0-9_-]{1,64}"$/);
});

test("trap 27 ($ref inside tool results also fails): results stay text", () => {
  const schema = '{"$ref":"#/x"}';
  const turns = [assistant(call("a")), user(result("a", { parts: [{ kind: "text", text: schema }] }))];
  const last = (contentsOf(turns) as { parts: unknown[] }[]).at(-1);
  assert.deepEqual(last?.parts, [{ functionResponse: { id: "a", name: "f", response: { result: schema } } }]);
});

test("trap 23: pictures in results go into them from Gemini 3 on, before that behind all results of the turn", () => {
  const source = { kind: "base64", mediaType: "image/png", data: "AAAA" } as const;
  const turns = [
    assistant(call("a"), call("b")),
    user(
      result("a", {
        parts: [
          { kind: "text", text: "see" },
          { kind: "image", source },
        ],
      }),
      result("b"),
    ),
  ];
  const inlineData = { inlineData: { mimeType: "image/png", data: "AAAA" } };
  const a = { id: "a", name: "f", response: { result: "see" } };
  const b = { functionResponse: { id: "b", name: "f", response: { result: "ok" } } };
  const partsOf = (model: string): unknown => (contentsOf(turns, model) as { parts: unknown[] }[]).at(-1)?.parts;
  assert.deepEqual(partsOf("gemini-3-pro-preview"), [{ functionResponse: { ...a, parts: [inlineData] } }, b]);
  assert.deepEqual(partsOf("gemini-2.5-pro"), [{ functionResponse: a }, b, inlineData]);
});

test("trap 26 (cut JSON must not be repaired silently): arguments that are no object stay whole, and say so", () => {
  const argsOf = (input: string): unknown => {
    const [, model] = contentsOf([assistant(call("a", "f", { input }))]) as {
      parts: { functionCall: { args: unknown } }[];
    }[];
    return model?.parts[0]?.functionCall.args;
  };
  for (const input of ['{"a":', "[1]", "null", "text"]) assert.deepEqual(argsOf(input), { INVALID_JSON: input });
  assert.deepEqual(argsOf(" "), {});
  const free = call("a", "f", { input: "*** begin", isFreeText: true });
  const [, model] = contentsOf([assistant(free)], "gemini-2.5-pro") as { parts: unknown[] }[];
  assert.deepEqual(model?.parts, [{ functionCall: { id: "a", name: "_relaytext.f", args: { input: "*** begin" } } }]);
});

test("cache marks and citations cannot be carried, and are named", () => {
  const cache = { ttl: "5m" } as const;
  assert.deepEqual(lossesOf(system({ kind: "text", text: "s", cache })), ["cache"]);
  const inner = result("a", { parts: [{ kind: "text", text: "x", cache }] });
  assert.deepEqual(lossesOf(assistant(call("a")), user(inner)), ["cache"]);
  assert.deepEqual(lossesOf(assistant({ kind: "text", text: "x", citations: [{ url: "https://a.example/" }] })), [
    "citations",
  ]);
  assert.deepEqual(contentsOf([user(text("hi")), assistant({ kind: "refusal", text: "no" })]), [
    hi,
    { role: "model", parts: [{ text: "no" }] },
  ]);
});

test("whatever the turns: they begin with the user, alternate, have parts, and nothing is empty", () => {
  const words = fc.constantFrom("", "a", "b");
  const part: fc.Arbitrary<Part> = fc.oneof(
    fc.record({ kind: fc.constant("text" as const), text: words }),
    fc.record({ kind: fc.constant("thinking" as const), text: words }),
    fc.record({ kind: fc.constant("call" as const), id: words, name: words, input: fc.constantFrom("", "{}") }),
  );
  const turn = fc.record({
    role: fc.constantFrom("system", "user", "assistant"),
    parts: fc.array(part, { maxLength: 3 }),
  });
  fc.assert(
    fc.property(fc.array(turn as fc.Arbitrary<Turn>, { maxLength: 6 }), (turns) => {
      const contents = contentsOf(turns) as { role: string; parts: { text?: string }[] }[];
      assert.equal(contents[0]?.role, "user");
      contents.forEach(({ role, parts }, at) => {
        assert.equal(role, at % 2 === 0 ? "user" : "model");
        assert.ok(parts.length > 0 && parts.every((one) => one.text !== ""));
      });
      assert.deepEqual(contentsOf(turns), contents);
    }),
  );
});
