import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { foldReply, type Reply, type ReplyEvent } from "../reply.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("gemini-generate");
const createStreamReader = () => createShownReader("gemini-generate");

type Fields = Record<string, unknown>;

const chunkOf = (parts: unknown[], candidate: Fields = {}, others: Fields = {}): Fields => ({
  candidates: [{ content: { parts, role: "model" }, index: 0, ...candidate }],
  modelVersion: "gemini-3-flash",
  responseId: "r-1",
  ...others,
});
const stop = { finishReason: "STOP" };
const callOf = (name: string, args?: Fields, id?: string): Fields => ({ functionCall: { name, args, id } });
const signed = (part: Fields, thoughtSignature: string): Fields => ({ ...part, thoughtSignature });

function readAll(chunks: unknown[]): ReplyEvent[] {
  const reader = createStreamReader();
  return [...chunks.flatMap((chunk) => reader.read(chunk)), ...reader.end()];
}

const fold = (...chunks: unknown[]): Reply => foldReply(readAll(chunks));
const gemini = (value: string): object => ({ issuer: "gemini-generate", value });

test("texts are joined into one block, thoughts into another, and the answer has its model, id and time", () => {
  const others = { createTime: "2026-11-21T10:00:00.500Z" };
  const reply = fold(
    chunkOf([{ text: "I think", thought: true }], {}, others),
    chunkOf([{ text: " so", thought: true }]),
    chunkOf([{ text: "Yes" }, { text: "," }]),
    chunkOf([{ text: " it is." }], stop),
  );
  assert.deepEqual(reply, {
    id: "r-1",
    model: "gemini-3-flash",
    createdAtSeconds: 1_795_255_200,
    choices: [
      {
        blocks: [
          { kind: "thinking", text: "I think so" },
          { kind: "text", text: "Yes, it is." },
        ],
        reason: "stop",
      },
    ],
    usage: undefined,
  });
});

test("usage comes with every chunk and is cumulative: the last one holds", () => {
  const usage = (candidatesTokenCount: number): Fields => ({
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount, totalTokenCount: 5 + candidatesTokenCount },
  });
  const reply = fold(chunkOf([{ text: "a" }], {}, usage(1)), chunkOf([{ text: "b" }], stop, usage(2)));
  assert.equal(reply.usage?.outputTokens, 2n);
  assert.equal(reply.usage?.inputTokens, 5n);
});

test("trap 10 (STOP after a tool call, split into two chunks): the call is remembered, nothing is finished before", () => {
  const reader = createStreamReader();
  const early = [...reader.read(chunkOf([callOf("f", {}, "c1")])), ...reader.read(chunkOf([{ text: "" }], stop))];
  assert.ok(!early.some(({ kind }) => kind === "choice-finish" || kind === "finish"));
  assert.deepEqual(reader.end(), [
    { kind: "choice-finish", choice: 0, reason: "calls" },
    { kind: "finish", usage: undefined },
  ]);
  assert.equal(fold(chunkOf([callOf("f", {}, "c1")], stop)).choices[0]?.reason, "calls");
  const twice = fold(chunkOf([callOf("f", {}, "c1")], stop), chunkOf([callOf("g", {}, "c2")], stop));
  assert.equal(twice.choices[0]?.blocks.length, 2);
});

test("trap 11 (SAFETY, RECITATION, MALFORMED_FUNCTION_CALL and friends must not all become content_filter)", () => {
  const reasonOf = (finishReason: string): unknown =>
    fold(chunkOf([{ text: "x" }], { finishReason })).choices[0]?.reason;
  const refusals = ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"];
  for (const reason of refusals) assert.equal(reasonOf(reason), "refusal", reason);
  for (const reason of ["MAX_TOKENS", "CONTINUATION"]) assert.equal(reasonOf(reason), "length", reason);
  const plain = ["STOP", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "LANGUAGE", "OTHER"];
  for (const reason of [...plain, "TOO_MANY_TOOL_CALLS", "NO_IMAGE", "NEW_REASON"]) {
    assert.equal(reasonOf(reason), "stop", reason);
  }
});

test("trap 13: signatures of calls and texts are opaque state of their block, also in a last, empty text", () => {
  const first = fold(chunkOf([signed(callOf("f", { a: 1 }, "c1"), "s1"), callOf("g", {}, "c2")], stop));
  assert.deepEqual(first.choices[0]?.blocks, [
    { kind: "call", id: "c1", name: "f", input: '{"a":1}', opaque: gemini("s1") },
    { kind: "call", id: "c2", name: "g", input: "{}" },
  ]);
  const second = fold(chunkOf([{ text: "Hi" }]), chunkOf([signed({ text: "" }, "s2")], stop));
  assert.deepEqual(second.choices[0]?.blocks, [{ kind: "text", text: "Hi", opaque: gemini("s2") }]);
  const alone = fold(chunkOf([callOf("f", {}, "c1"), signed({ text: "" }, "s3")], stop));
  assert.deepEqual(alone.choices[0]?.blocks[1], { kind: "text", text: "", opaque: gemini("s3") });
  const mixed = fold(chunkOf([signed({ text: "a" }, "s4"), { text: "b" }, signed({ text: "c" }, "s5")], stop));
  assert.deepEqual(mixed.choices[0]?.blocks, [
    { kind: "text", text: "a", opaque: gemini("s4") },
    { kind: "text", text: "bc", opaque: gemini("s5") },
  ]);
});

test("trap 14: calls without an id, or with one that other formats refuse, get one of 64 allowed characters", () => {
  const chunk = chunkOf([callOf("f", { a: 1 }), callOf("f", { a: 1 }), callOf("g", {}, "no spaces")], stop, {
    responseId: "r/1+".repeat(40),
  });
  const ids = fold(chunk).choices[0]?.blocks.map((block) => block.kind === "call" && block.id) ?? [];
  assert.equal(new Set(ids).size, 3);
  for (const id of ids) assert.match(String(id), /^[A-Za-z0-9_-]{1,64}$/);
  assert.deepEqual(fold(chunk), fold(chunk));
  const other = fold(chunkOf([callOf("f", { a: 2 })], stop, { responseId: undefined })).choices[0]?.blocks[0];
  const one = fold(chunkOf([callOf("f", { a: 1 })], stop, { responseId: undefined })).choices[0]?.blocks[0];
  assert.notDeepEqual(other, one);
});

test("names that Gemini cannot have and free-text tools come back as the caller named them", () => {
  const chunk = chunkOf([callOf("_relay.7zip", {}, "a"), callOf("_relaytext.apply", { input: "*** x" }, "b")], stop);
  assert.deepEqual(fold(chunk).choices[0]?.blocks, [
    { kind: "call", id: "a", name: "7zip", input: "{}" },
    { kind: "call", id: "b", name: "apply", input: "*** x", isFreeText: true },
  ]);
});

test("a blocked prompt is a refusal without content; an answer without candidates or blocking is none", () => {
  const blocked = { promptFeedback: { blockReason: "PROHIBITED_CONTENT" }, usageMetadata: { promptTokenCount: 3 } };
  for (const reply of [fold(blocked), readReply(blocked)]) {
    assert.deepEqual(reply?.choices, [{ blocks: [], reason: "refusal" }]);
    assert.equal(reply?.usage?.inputTokens, 3n);
  }
  assert.deepEqual(fold({ candidates: [{ finishReason: "SAFETY", content: {} }] }).choices, [
    { blocks: [], reason: "refusal" },
  ]);
  for (const body of [{ candidates: [] }, { usageMetadata: {} }, {}, undefined, "x", { error: { message: "no" } }]) {
    assert.equal(readReply(body), undefined);
  }
});

test("several candidates keep apart, and each has its own end", () => {
  const candidate = (index: number, text: string, ending: Fields = {}): Fields => ({
    index,
    content: { parts: [{ text }] },
    ...ending,
  });
  const reply = fold(
    { candidates: [candidate(0, "a"), candidate(1, "x")] },
    { candidates: [candidate(1, "y", { finishReason: "MAX_TOKENS" })] },
    { candidates: [candidate(0, "b", stop)] },
  );
  assert.deepEqual(reply.choices, [
    { blocks: [{ kind: "text", text: "ab" }], reason: "stop" },
    { blocks: [{ kind: "text", text: "xy" }], reason: "length" },
  ]);
  const broken = readAll([{ candidates: [candidate(0, "a", stop), candidate(1, "x")] }]);
  assert.equal(broken.at(-1)?.kind, "error");
});

test("trap 22: a stream without a finishReason ends in an error, and an error event ends it at once", () => {
  for (const chunks of [[], [chunkOf([{ text: "half" }])], [{ candidates: [] }]]) {
    const events = readAll(chunks);
    assert.equal(events.at(-1)?.kind, "error");
    assert.ok(!events.some(({ kind }) => kind === "finish" || kind === "choice-finish"));
  }
  const error = { error: { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" } };
  const events = readAll([chunkOf([{ text: "half" }]), error, chunkOf([{ text: "more" }], stop)]);
  assert.deepEqual(events.at(-1), {
    kind: "error",
    error: { message: "The model is overloaded.", type: "UNAVAILABLE", code: "UNAVAILABLE" },
  });
  assert.equal(events.filter(({ kind }) => kind === "block-delta").length, 1);
  assert.equal(createStreamReader().read({ error: { code: 500 } })[0]?.kind, "error");
});

test("a whole body is not cut: without a finishReason it is an answer all the same", () => {
  assert.deepEqual(readReply(chunkOf([{ text: "all" }]))?.choices, [
    { blocks: [{ kind: "text", text: "all" }], reason: "stop" },
  ]);
});

const web = (uri: string, title: string): Fields => ({ web: { uri, title } });

test("grounding and quotes become citations of the text; places only where bytes are characters", () => {
  const groundingMetadata = {
    groundingChunks: [web("https://a.example/", "A"), web("https://b.example/", "B")],
    groundingSupports: [
      { segment: { endIndex: 4, text: "Rain" }, groundingChunkIndices: [0, 1, 7] },
      { segment: { startIndex: 5, endIndex: 9 }, groundingChunkIndices: [0] },
    ],
  };
  const cited = [
    { url: "https://a.example/", title: "A", start: 0, end: 4 },
    { url: "https://b.example/", title: "B", start: 0, end: 4 },
    { url: "https://a.example/", title: "A", start: 5, end: 9 },
  ];
  const ofStream = fold(chunkOf([{ text: "Rain soon" }]), chunkOf([{ text: "" }], { ...stop, groundingMetadata }));
  assert.deepEqual(ofStream.choices[0]?.blocks, [{ kind: "text", text: "Rain soon", citations: cited }]);
  const withCall = chunkOf([{ text: "Rain soon" }, callOf("f", {}, "c")], { ...stop, groundingMetadata });
  const first = readReply(withCall)?.choices[0]?.blocks[0];
  assert.deepEqual(first, { kind: "text", text: "Rain soon", citations: cited });
  const umlaut = fold(chunkOf([{ text: "Übel" }], { ...stop, groundingMetadata })).choices[0]?.blocks[0];
  assert.deepEqual(umlaut?.kind === "text" && umlaut.citations?.[0], { url: "https://a.example/", title: "A" });
  const citationMetadata = { citationSources: [{ startIndex: 1, endIndex: 3, uri: "https://c.example/" }] };
  const quote = fold(chunkOf([{ text: "quoted" }], { ...stop, citationMetadata })).choices[0]?.blocks[0];
  assert.deepEqual(quote?.kind === "text" && quote.citations, [{ url: "https://c.example/", start: 1, end: 3 }]);
});

const text = fc.string({ maxLength: 5 });
const part = fc.oneof(
  fc.record({ text, thought: fc.boolean() }),
  fc.record({ text, thoughtSignature: text }),
  fc.record({ functionCall: fc.record({ name: text, args: fc.dictionary(text, fc.jsonValue()) }) }),
  fc.record({ inlineData: fc.jsonValue() }),
);
const ending = fc.constantFrom("STOP", "MAX_TOKENS", "SAFETY", "OTHER");

test("blocks never overlap, each has an end, and there is exactly one finish at the end", () => {
  const chunks = fc.array(fc.tuple(fc.nat(2), fc.array(part)), { maxLength: 8 });
  fc.assert(
    fc.property(chunks, ending, (given, finishReason) => {
      const bodies = given.map(([index, parts]) => ({ candidates: [{ index, content: { parts } }] }));
      const endings = [0, 1, 2].map((index) => ({ index, finishReason }));
      const events = readAll([...bodies, { candidates: endings }]);
      const open = new Set<number>();
      for (const event of events) {
        if (event.kind === "block-start") assert.ok(!open.has(event.choice) && open.add(event.choice));
        if (event.kind === "block-delta") assert.ok(open.has(event.choice) && event.text !== "");
        if (event.kind === "block-end") assert.ok(open.delete(event.choice));
        if (event.kind === "choice-finish") assert.ok(!open.has(event.choice));
      }
      assert.equal(events[0]?.kind, "start");
      assert.equal(events.filter(({ kind }) => kind === "finish").length, 1);
      assert.equal(events.at(-1)?.kind, "finish");
    }),
  );
});

test("a stream folds to the same reply as its parts in one body", () => {
  const parts = fc.array(part, { maxLength: 8 });
  fc.assert(
    fc.property(parts, fc.integer({ min: 1, max: 4 }), (all, size) => {
      const slices = [];
      for (let at = 0; at < all.length; at += size) slices.push(chunkOf(all.slice(at, at + size)));
      assert.deepEqual(fold(...slices, chunkOf([], stop)), readReply(chunkOf(all, stop)));
    }),
  );
});

test("anything a provider sends never throws and never ends a broken stream as whole", () => {
  const garbage = fc.oneof(
    fc.anything(),
    fc.record({ candidates: fc.jsonValue(), promptFeedback: fc.jsonValue(), usageMetadata: fc.jsonValue() }),
    fc.record({ candidates: fc.array(fc.record({ index: fc.anything(), content: fc.jsonValue() })) }),
    fc.array(fc.anything()).map((parts) => ({ candidates: [{ content: { parts } }] })),
    fc.jsonValue().map((metadata) => ({ candidates: [{ groundingMetadata: metadata, citationMetadata: metadata }] })),
  );
  fc.assert(
    fc.property(fc.array(garbage, { maxLength: 4 }), (chunks) => {
      const events = readAll(chunks);
      assert.ok(["error", "finish"].includes(events.at(-1)?.kind ?? ""));
      for (const chunk of chunks) readReply(chunk);
    }),
  );
});
