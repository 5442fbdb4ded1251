import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  losses,
  UnsupportedError,
  type Conversation,
  type FilePart,
  type Part,
  type Tool,
  type Turn,
} from "../conversation.ts";
import { foldReply, unfoldReply, type Block, type Reply, type ReplyEvent } from "../reply.ts";
import { client, provider } from "./conversion.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("openai-responses");
const createStreamReader = () => createShownReader("openai-responses");

const asked = { model: "m", wantsStreamUsage: true };
const target = { model: "gpt", maxOutputTokens: 1_000_000, quirks: new Set<never>() };
const words = fc.string({ unit: "binary", minLength: 1, maxLength: 20 });
const names = fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/);
const some = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value[]> => fc.array(value, { maxLength: 4 });
const present = { noNullPrototype: true, requiredKeys: [] };

const opaque = fc.record({
  issuer: fc.constant("openai-responses" as const),
  value: fc.base64String({ minLength: 1 }),
});
const citation = fc.record({ url: fc.webUrl(), title: words, start: fc.nat(), end: fc.nat() });
const cache = fc.record({ ttl: fc.constantFrom("5m" as const, "1h" as const) });
const source = fc.oneof(
  fc.record({ kind: fc.constant("url" as const), url: fc.webUrl() }),
  fc.record({
    kind: fc.constant("base64" as const),
    mediaType: fc.constantFrom("image/png", "application/pdf", "text/plain"),
    data: fc.base64String({ minLength: 1 }),
  }),
);

const textFields = { kind: fc.constant("text" as const), text: words };
const textPart = fc.record(textFields);
const citedPart = fc.oneof(
  textPart,
  fc.record({ ...textFields, citations: fc.array(citation, { minLength: 1, maxLength: 2 }) }),
);
const imagePart = fc.record({ kind: fc.constant("image" as const), source, detail: fc.constantFrom("low", "auto") });
const filePart = source.chain((of): fc.Arbitrary<FilePart> =>
  of.kind === "url"
    ? fc.constant({ kind: "file" as const, source: of })
    : fc.record({ kind: fc.constant("file" as const), source: fc.constant(of), name: fc.constant("a.pdf") }),
);
const audioPart = fc.record({
  kind: fc.constant("audio" as const),
  mediaType: fc.constantFrom("audio/wav", "audio/mp3"),
  data: fc.base64String(),
});
const markedPart = fc.record({ ...textFields, cache });

const callPart = fc.oneof(
  fc.record({ kind: fc.constant("call" as const), id: names, name: names, input: words }),
  fc.record({
    kind: fc.constant("call" as const),
    id: names,
    name: names,
    input: words,
    isFreeText: fc.constant(true as const),
  }),
);
const resultPart = fc.record({
  kind: fc.constant("result" as const),
  callId: names,
  parts: some(fc.oneof(textPart, imagePart, filePart)),
  isError: fc.constant(false),
});
const refusalPart = fc.record({ kind: fc.constant("refusal" as const), text: words });
const thinkingPart = fc.record({
  kind: fc.constant("thinking" as const),
  text: fc.oneof(words, fc.constant("")),
  opaque,
});

const assistantPart: fc.Arbitrary<Part> = fc.oneof<fc.Arbitrary<Part>[]>(
  citedPart,
  callPart,
  refusalPart,
  thinkingPart,
);
const userTurn = fc
  .tuple(some(resultPart), some(fc.oneof(textPart, markedPart, imagePart, filePart, audioPart)))
  .map(([results, parts]): Turn => ({ role: "user", parts: [...results, ...parts] }));
const assistantTurn = fc
  .tuple(some(assistantPart), fc.oneof<fc.Arbitrary<Part>[]>(textPart, callPart))
  .map(([parts, last]): Turn => ({ role: "assistant", parts: [...parts, last] }));
const systemTurn = some(textPart).map((parts): Turn => ({ role: "system", parts }));
// Turns of one side that follow each other come back as one.
const turns = some(fc.oneof(userTurn, assistantTurn, systemTurn)).map((list) =>
  list.filter(({ role, parts }, at) => parts.length > 0 && role !== list[at - 1]?.role),
);
const isApart = (list: Turn[]): boolean => list.every(({ role }, at) => role !== list[at - 1]?.role);

const tool: fc.Arbitrary<Tool> = fc.oneof(
  fc.record({
    name: names,
    description: words,
    schema: fc.constant({ type: "object", properties: { a: { type: "string" } } }),
    isStrict: fc.boolean(),
  }),
  fc.record({ name: names, schema: fc.constant({ type: "text" }), isFreeText: fc.constant(true as const) }),
);
const toolSettings = fc
  .tuple(fc.uniqueArray(tool, { selector: ({ name }) => name, minLength: 1, maxLength: 4 }), fc.boolean())
  .chain(([tools, allowsParallelCalls]) => {
    const named = fc.subarray(
      tools.map(({ name }) => name),
      { minLength: 1 },
    );
    const toolChoice = fc.oneof(
      fc.record({ kind: fc.constantFrom("auto" as const, "none" as const, "required" as const) }),
      fc.record({ kind: fc.constantFrom("auto" as const, "required" as const), names: named }),
    );
    return fc.record({ tools: fc.constant(tools), toolChoice, allowsParallelCalls: fc.constant(allowsParallelCalls) });
  });
const settings = fc.record(
  {
    maxOutputTokens: fc.integer({ min: 1, max: 1000 }),
    temperature: fc.constantFrom(0, 0.5, 2),
    topP: fc.constantFrom(0.1, 1),
    topLogprobs: fc.nat({ max: 20 }),
    reasoning: fc.oneof(
      fc.record({ effort: fc.constantFrom("none", "minimal", "low", "medium", "high", "xhigh", "max") }),
      fc.record({ effort: fc.constantFrom("low", "high"), isShown: fc.constant(true), saysDisplay: fc.constant(true) }),
    ),
    outputFormat: fc.oneof(
      fc.record({ kind: fc.constant("json" as const) }),
      fc.record({ kind: fc.constant("schema" as const), name: names, schema: fc.constant({}), isStrict: fc.boolean() }),
    ),
    verbosity: fc.constantFrom("low", "medium", "high"),
    endUser: names,
  },
  present,
) as fc.Arbitrary<Partial<Conversation>>;
const conversations = fc
  .tuple(turns.filter(isApart), fc.oneof(toolSettings, fc.constant({ tools: [] })), settings, fc.boolean())
  .map(([list, used, more, isStream]) => ({
    turns: list,
    ...used,
    ...more,
    stopSequences: [],
    isStream,
    wantsStreamUsage: true,
  }))
  // Its records have no prototype; those that are read have one.
  .map((conversation) => structuredClone(conversation) as Conversation);

test("a conversation that the format can say is written without loss, and read back as it was", () => {
  fc.assert(
    fc.property(conversations, (conversation) => {
      const written = provider.writeRequest(conversation, target);
      assert.deepEqual([...written.losses], []);
      const { conversation: read, dropped } = client.readRequest(structuredClone(written.body));
      assert.deepEqual(read, conversation);
      assert.deepEqual([...dropped], []);
    }),
    { numRuns: 300 },
  );
});

test("trap 30 (an unstable order kills the cache): what is written depends on nothing but the conversation", () => {
  fc.assert(
    fc.property(conversations, (conversation) => {
      const texts = [conversation, structuredClone(conversation)].map((said) =>
        JSON.stringify(provider.writeRequest(said, target).body),
      );
      assert.equal(texts[0], texts[1]);
    }),
  );
});

const likelihood = { token: words, logprob: fc.double({ max: -0.001, noNaN: true, noDefaultInfinity: true }) };
const likelihoods = fc.oneof(
  fc.record(likelihood),
  fc.record({ ...likelihood, bytes: fc.array(fc.nat({ max: 255 }), { minLength: 1 }) }),
);
const token = fc.tuple(likelihoods, some(likelihoods)).map(([one, alternatives]) => ({ ...one, alternatives }));
const tokensPart = fc.record({ ...textFields, logprobs: fc.array(token, { minLength: 1, maxLength: 3 }) });
const input = fc.json({ maxDepth: 1 });
const block: fc.Arbitrary<Block> = fc.oneof(
  citedPart,
  tokensPart,
  refusalPart,
  thinkingPart,
  fc.record({ kind: fc.constant("call" as const), id: names, name: names, input }),
  fc.record({
    kind: fc.constant("call" as const),
    id: names,
    name: names,
    input: words,
    isFreeText: fc.constant(true as const),
  }),
);
const count = fc.bigInt({ min: 0n, max: 1_000_000n });
const hasOwnIds = (blocks: Block[]): boolean => {
  const ids = blocks.flatMap((one) => (one.kind === "call" ? [one.id] : []));
  return new Set(ids).size === ids.length;
};
const replies: fc.Arbitrary<Reply> = fc
  .record({
    id: names.map((name) => `resp_${name}`),
    createdAtSeconds: fc.nat(),
    blocks: fc.array(block, { maxLength: 6 }).filter(hasOwnIds),
    isCut: fc.boolean(),
    usage: fc.record({
      inputTokens: count,
      cacheReadTokens: count,
      cacheWrite5mTokens: count,
      outputTokens: count,
      reasoningTokens: count,
    }),
  })
  .map(({ blocks, isCut, ...rest }): Reply => {
    const ended = blocks.some(({ kind }) => kind === "call") ? "calls" : "stop";
    return structuredClone({ ...rest, model: "m", choices: [{ blocks, reason: isCut ? "length" : ended }] });
  });

/** What a stream's text holds, as the relay's own reader takes it in. */
function readStream(text: string): ReplyEvent[] {
  const reader = createStreamReader();
  const records = text.split("\n\n").slice(0, -1);
  const data = records.map((record) => JSON.parse(record.slice(record.indexOf("data: ") + 6)) as unknown);
  return [...data.flatMap((event) => reader.read(event)), ...reader.end()];
}

test("a stream that is written is read back as the events that it was written from", () => {
  fc.assert(
    fc.property(replies, (reply) => {
      const events = unfoldReply(reply);
      const writer = client.createStreamWriter(asked);
      assert.deepEqual(readStream(events.map((event) => writer.write(event)).join("")), events);
    }),
    { numRuns: 300 },
  );
});

test("a whole reply that is written is read back as it was, and equals its stream folded", () => {
  fc.assert(
    fc.property(replies, (reply) => {
      const body = JSON.parse(JSON.stringify(client.writeReply(reply, asked))) as unknown;
      assert.deepEqual(readReply(body), reply);
      const writer = client.createStreamWriter(asked);
      const text = unfoldReply(reply)
        .map((event) => writer.write(event))
        .join("");
      assert.deepEqual(foldReply(readStream(text)), reply);
    }),
    { numRuns: 300 },
  );
});

const types = fc.constantFrom(
  "response.created",
  "response.output_item.added",
  "response.output_item.done",
  "response.content_part.added",
  "response.content_part.done",
  "response.output_text.delta",
  "response.refusal.delta",
  "response.reasoning_summary_text.delta",
  "response.reasoning_text.delta",
  "response.function_call_arguments.delta",
  "response.custom_tool_call_input.delta",
  "response.output_text.annotation.added",
  "response.completed",
  "response.incomplete",
  "response.failed",
  "error",
);
const wireItem = fc.oneof(
  fc.constant({ type: "function_call", id: "fc_1", call_id: "c1", name: "look", arguments: "{}" }),
  fc.constant({ type: "message", id: "msg_1", content: [{ type: "output_text", text: "A" }, { type: "refusal" }] }),
  fc.constant({ type: "reasoning", id: "rs_1", summary: [{ text: "A" }], encrypted_content: "gAAA" }),
  fc.jsonValue(),
);
const wireEvent = fc.record(
  {
    type: fc.oneof(types, fc.jsonValue()),
    output_index: fc.oneof(fc.nat({ max: 2 }), fc.jsonValue()),
    content_index: fc.oneof(fc.nat({ max: 2 }), fc.jsonValue()),
    summary_index: fc.nat({ max: 2 }),
    delta: fc.oneof(words, fc.constant(""), fc.jsonValue()),
    logprobs: fc.oneof(some(token), some(fc.jsonValue()), fc.jsonValue()),
    item: wireItem,
    part: fc.oneof(fc.constant({ type: "output_text", text: "A" }), fc.jsonValue()),
    annotation: fc.jsonValue(),
    response: fc.oneof(fc.record({ id: words, output: some(wireItem), usage: fc.jsonValue() }), fc.jsonValue()),
    message: fc.jsonValue(),
  },
  present,
);

/** A start, then blocks one after the other, then one end. */
function assertWellFormed(events: ReplyEvent[]): void {
  const [first, ...rest] = events;
  assert.equal(first?.kind, "start");
  let isOpen = false;
  for (const { kind } of rest) {
    if (kind === "block-start") assert.equal(isOpen, false);
    else if (kind.startsWith("block-")) assert.equal(isOpen, true, kind);
    else assert.equal(isOpen, false, kind);
    if (kind === "block-start" || kind === "block-end") isOpen = kind === "block-start";
  }
  const ends = rest.filter(({ kind }) => kind === "start" || kind === "finish" || kind === "error");
  assert.deepEqual(ends, rest.slice(-1));
}

test("a stream of any garbage is a start, blocks that never overlap, and one finish or error; it never throws", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(wireEvent, fc.jsonValue()), { maxLength: 25 }), (events) => {
      const reader = createStreamReader();
      const told = [...events.flatMap((event) => reader.read(event)), ...reader.end()];
      assertWellFormed(told);
      const writer = client.createStreamWriter(asked);
      for (const event of told) writer.write(event);
    }),
    { numRuns: 2000 },
  );
});

test("any garbage is read as a reply or as none, and as a request or refused by name; nothing else is thrown", () => {
  const body = fc.record(
    {
      input: fc.oneof(some(wireItem), fc.jsonValue()),
      instructions: fc.jsonValue(),
      output: some(wireItem),
      tools: fc.oneof(
        some(fc.record({ type: fc.constantFrom("function", "custom"), name: fc.jsonValue() })),
        fc.jsonValue(),
      ),
      tool_choice: fc.jsonValue(),
      text: fc.jsonValue(),
      reasoning: fc.jsonValue(),
      include: fc.jsonValue(),
      max_output_tokens: fc.jsonValue(),
    },
    present,
  );
  fc.assert(
    fc.property(fc.oneof(body, fc.dictionary(fc.string(), fc.jsonValue())), (fields) => {
      readReply(fields);
      try {
        const { conversation } = client.readRequest(fields);
        provider.writeRequest(conversation, target);
      } catch (error) {
        assert.ok(error instanceof UnsupportedError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});

test("every loss has a name of this dialect", () => {
  for (const loss of losses) assert.match(client.lossNames[loss], /^[a-z_.]+$/);
});
