import fc from "fast-check";
import assert from "node:assert/strict";
import { test } from "node:test";
import { UnsupportedError, type Conversation, type Part } from "../conversation.ts";
import { foldReply, unfoldReply, type Block, type Reply, type ReplyEvent } from "../reply.ts";
import { client, provider } from "./conversion.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("anthropic-messages");
const createStreamReader = () => createShownReader("anthropic-messages");

const target = { model: "m", maxOutputTokens: 64_000, quirks: new Set<never>() };
const asked = { model: "m", wantsStreamUsage: true };

const words = fc.string({ unit: "grapheme", minLength: 1 }).filter((text) => text.trim() === text && text !== "");
const base64 = fc.base64String({ minLength: 4 });
const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/);
const cache = fc.option(fc.constant({ cache: { ttl: "5m" as const } }), { nil: {} });
const state = base64.map((value) => ({ issuer: "anthropic-messages" as const, value }));
const redacted = base64.map((value) => ({ issuer: "anthropic-messages" as const, value: `redacted.${value}` }));
const input = fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), words).map((value) => JSON.stringify(value));

const image = fc.constantFrom("image/png", "image/jpeg", "image/gif", "image/webp").chain((mediaType) =>
  fc.record({
    kind: fc.constant("image" as const),
    source: base64.map((data) => ({ kind: "base64" as const, mediaType, data })),
  }),
);
const file = fc.record({
  kind: fc.constant("file" as const),
  source: fc.webUrl().map((url) => ({ kind: "url" as const, url })),
  name: words,
});
const text = fc.tuple(words, cache).map(([said, mark]) => ({ kind: "text" as const, text: said, ...mark }));
const shown = fc.oneof(text, image, file);
const result = fc.record({
  kind: fc.constant("result" as const),
  callId: id,
  parts: fc.array(shown, { maxLength: 3 }),
  isError: fc.boolean(),
});
const thinking = fc.oneof(
  fc.record({ kind: fc.constant("thinking" as const), text: words, opaque: state }),
  fc.record({ kind: fc.constant("thinking" as const), text: fc.constant(""), opaque: redacted }),
);
const call = fc.record({ kind: fc.constant("call" as const), id, name: id, input });
const some = <T>(parts: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(parts, { maxLength: 3 });
const userParts = fc.tuple(some(result), some(shown)).map((groups): Part[] => groups.flat());
const assistantParts = fc.tuple(some(thinking), some(text), some(call)).map((groups): Part[] => groups.flat());

const conversations: fc.Arbitrary<Conversation> = fc
  .record({
    system: some(fc.record({ kind: fc.constant("text" as const), text: words })),
    pairs: fc.array(fc.tuple(userParts, assistantParts), { maxLength: 3 }),
    last: userParts,
    tools: fc.uniqueArray(fc.record({ name: id, schema: fc.constant({ type: "object" }) }), {
      selector: ({ name }) => name,
      minLength: 1,
      maxLength: 3,
    }),
    maxOutputTokens: fc.integer({ min: 1, max: 1_000_000 }),
    temperature: fc.double({ min: 0, max: 1, noNaN: true, noDefaultInfinity: true }),
    topK: fc.nat(),
    stopSequences: some(words),
    endUser: words,
    isStream: fc.boolean(),
  })
  .filter(({ pairs, last }) => pairs.every(([user, answer]) => user.length && answer.length) && last.length > 0)
  .map(({ system, pairs, last, ...rest }) => ({
    ...rest,
    turns: [
      ...(system.length > 0 ? [{ role: "system" as const, parts: system }] : []),
      ...pairs.flatMap(([user, answer]) => [
        { role: "user" as const, parts: user },
        { role: "assistant" as const, parts: answer },
      ]),
      { role: "user" as const, parts: last },
    ],
    wantsStreamUsage: true,
  }));

const overJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

test("what a request says in this format, it says when it is read again", () => {
  fc.assert(
    fc.property(conversations, (conversation) => {
      const { body, losses } = provider.writeRequest(conversation, target);
      const { conversation: again, dropped } = client.readRequest(overJson(body));
      assert.deepEqual([...dropped], []);
      // The provider takes four marks at most.
      if (!losses.has("cache")) assert.deepEqual(again, overJson(conversation));
      assert.deepEqual(overJson(provider.writeRequest(again, target).body), overJson(body));
    }),
  );
});

const blocks: fc.Arbitrary<Block[]> = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("text" as const), text: words }),
    thinking as fc.Arbitrary<Block>,
    call.map((block): Block => ({ ...block, input: block.input === "{}" ? "" : block.input })),
  ),
  { maxLength: 5 },
);
const count = fc.nat().map(BigInt);
const replies: fc.Arbitrary<Reply> = fc
  .record({
    id: id.map((rest) => `msg_${rest}`),
    model: fc.constant("m"),
    choices: fc
      .tuple(blocks, fc.constantFrom("stop" as const, "length" as const, "calls" as const, "refusal" as const))
      // A refusal before any output is not billed, and tells no counts.
      .filter(([given, reason]) => reason !== "refusal" || given.length > 0)
      .map(([given, reason]) => [{ blocks: given, reason }]),
    usage: fc.record({
      inputTokens: count,
      cacheReadTokens: count,
      cacheWrite5mTokens: count,
      cacheWrite1hTokens: fc.constant(0n),
      outputTokens: count,
      reasoningTokens: count,
    }),
  })
  // Records of fast-check may have no prototype, which nothing here makes.
  .map((reply) => structuredClone(reply));

function dataOf(written: string): unknown[] {
  const events = written.split("\n\n").slice(0, -1);
  return events.map((event) => JSON.parse(event.slice(event.indexOf("data: ") + 6)) as unknown);
}

function streamed(events: ReplyEvent[]): ReplyEvent[] {
  const writer = client.createStreamWriter(asked);
  const reader = createStreamReader();
  const data = dataOf(events.map((event) => writer.write(event)).join(""));
  return [...data.flatMap((one) => reader.read(one)), ...reader.end()];
}

test("a stream that is written and read again has the same events", () => {
  fc.assert(
    fc.property(replies, (reply) => {
      const events = unfoldReply(reply);
      assert.deepEqual(streamed(events), events);
    }),
  );
});

test("folding a stream equals the whole reply, written and read", () => {
  fc.assert(
    fc.property(replies, (reply) => {
      const whole = readReply(overJson(client.writeReply(reply, asked)));
      assert.deepEqual(foldReply(streamed(unfoldReply(reply))), whole);
      assert.deepEqual(whole, reply);
    }),
  );
});

const mark = { type: "ephemeral", ttl: "1h" };
const picture = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } };
const fixtures: Record<string, unknown>[] = [
  { model: "m", max_tokens: 10, messages: [{ role: "user", content: "Hi" }], system: "Be brief.", stream: true },
  {
    model: "m",
    max_tokens: 1000,
    system: [{ type: "text", text: "Be brief.", cache_control: mark }],
    messages: [
      { role: "user", content: [{ type: "text", text: "Look." }, picture] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "c2ln" },
          { type: "redacted_thinking", data: "ZA==" },
          { type: "text", text: "So.", citations: [{ type: "char_location", cited_text: "c", document_index: 0 }] },
          { type: "tool_use", id: "toolu_1", name: "f", input: { a: [1, { b: null }] } },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "toolu_1",
            content: [{ type: "text", text: "x" }, picture],
            is_error: true,
          },
          { type: "document", source: { type: "content", content: [{ type: "text", text: "y" }] }, title: "T" },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "z" }, cache_control: mark },
          { type: "search_result", source: "https://a.example", title: "T", content: [{ type: "text", text: "w" }] },
        ],
      },
    ],
    tools: [{ name: "f", description: "d", input_schema: { type: "object" }, strict: true, cache_control: mark }],
    tool_choice: { type: "tool", name: "f", disable_parallel_tool_use: true },
    thinking: { type: "enabled", budget_tokens: 2048, display: "omitted" },
    output_config: { effort: "high", format: { type: "json_schema", schema: { type: "object" } } },
    temperature: 0.5,
    top_p: 0.9,
    top_k: 4,
    stop_sequences: ["END"],
    metadata: { user_id: "u" },
    cache_control: mark,
  },
];

/** A value with one of its inner values put in another's place. */
function mutate(value: unknown, path: number[], replacement: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined || typeof value !== "object" || value === null) return replacement;
  const keys = Object.keys(value);
  const key = keys[step % Math.max(keys.length, 1)];
  if (key === undefined) return replacement;
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...value }) as Record<string, unknown>;
  copy[key] = mutate(copy[key], rest, replacement);
  return copy;
}

const paths = fc.array(fc.nat({ max: 20 }), { maxLength: 7 });
const anything = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>(null, "", 0, -1, [], {}, "text", [null], "__proto__"),
);

test("a request that is none is refused in words or read, never a crash; what is read can be written", () => {
  fc.assert(
    fc.property(fc.constantFrom(...fixtures), paths, anything, (fixture, path, replacement) => {
      const body = mutate(fixture, path, replacement);
      if (typeof body !== "object" || body === null || Array.isArray(body)) return;
      try {
        const { conversation } = client.readRequest(body as Record<string, unknown>);
        provider.writeRequest(conversation, target);
      } catch (error) {
        assert.ok(error instanceof UnsupportedError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});

const eventTypes = [
  "message_start",
  "content_block_start",
  "content_block_delta",
  "content_block_stop",
  "message_delta",
  "message_stop",
  "ping",
  "error",
  "text",
  "thinking",
  "redacted_thinking",
  "tool_use",
  "server_tool_use",
  "text_delta",
  "input_json_delta",
  "thinking_delta",
  "signature_delta",
  "citations_delta",
];
const leaf = fc.oneof(anything, fc.constantFrom(...eventTypes));
const piece = fc.dictionary(
  fc.constantFrom("type", "text", "thinking", "signature", "data", "id", "name", "input", "partial_json", "citation"),
  leaf,
);
const wildEvent = fc.oneof(
  leaf,
  fc.record(
    {
      type: fc.constantFrom(...eventTypes),
      message: piece,
      content_block: fc.oneof(piece, leaf),
      delta: fc.oneof(piece, fc.record({ stop_reason: leaf, stop_sequence: leaf })),
      usage: fc.dictionary(fc.constantFrom("input_tokens", "output_tokens", "cache_creation"), leaf),
      error: piece,
    },
    { requiredKeys: ["type"] },
  ),
);

test("whatever a provider streams: no crash, blocks nest well, one finish or error at the end", () => {
  fc.assert(
    fc.property(fc.array(wildEvent, { maxLength: 20 }), (data) => {
      const reader = createStreamReader();
      const events = [...data.flatMap((one) => reader.read(one)), ...reader.end()];
      assert.match(
        events.map(({ kind }) => kind).join(" "),
        new RegExp(
          "^(start ?(block-start (block-(delta|citation|opaque) )*(block-end ?|(?=error$)))*" +
            "(choice-finish finish|error)|error)$",
        ),
      );
      const writer = client.createStreamWriter(asked);
      dataOf(events.map((event) => writer.write(event)).join(""));
    }),
    { numRuns: 2000 },
  );
});

test("whatever a provider answers is read or is no reply", () => {
  fc.assert(
    fc.property(
      fc.record({ content: fc.oneof(leaf, fc.array(fc.oneof(piece, leaf))), usage: leaf, stop_reason: leaf }),
      (body) => {
        const reply = readReply(body);
        if (reply) client.writeReply(reply, asked);
      },
    ),
    { numRuns: 1000 },
  );
});
