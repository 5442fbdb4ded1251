import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { officialClients, pythonWith } from "#shared/testing/python.ts";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import fc from "fast-check";
import type { LanguageModel } from "ai";
import type { Citation, Opaque } from "./conversation.ts";
import { clients } from "./conversions.ts";
import type { CallerRequest } from "./conversion.ts";
import type { DialectName } from "./dialect.ts";
import { unfoldReply, type Block, type Reply } from "./reply.ts";

const asked: CallerRequest = { model: "m", wantsStreamUsage: true, inputTokens: 9 };
const clientNames = Object.keys(clients) as DialectName[];

const opaque: fc.Arbitrary<Opaque> = fc.record({
  issuer: fc.constantFrom("openai-responses", "anthropic-messages", "gemini-generate"),
  value: fc.base64String({ minLength: 4, maxLength: 24 }),
});
const citation: fc.Arbitrary<Citation> = fc.record(
  { url: fc.webUrl(), title: fc.string(), text: fc.string(), start: fc.nat(9), end: fc.nat(9) },
  { requiredKeys: [] },
);
const words = fc.string({ minLength: 1, maxLength: 12 });
const token = words.map((text) => ({ token: text, logprob: -0.5, alternatives: [{ token: text, logprob: -2 }] }));
const input = fc.oneof(
  fc.constant(""),
  fc.dictionary(words, fc.jsonValue({ maxDepth: 2 })).map((at) => JSON.stringify(at)),
);
const name = fc.constantFrom("look", "now", "multi_agent_v1__spawn");

const call = fc.record(
  { kind: fc.constant("call" as const), id: fc.uuid().map((id) => `call_${id}`), name, input, opaque },
  { requiredKeys: ["kind", "id", "name", "input"] },
);
const freeTextCall = fc.record(
  { kind: fc.constant("call" as const), id: fc.uuid(), name, input: words, isFreeText: fc.constant(true), opaque },
  { requiredKeys: ["kind", "id", "name", "input", "isFreeText"] },
);
const text = fc.record(
  {
    kind: fc.constant("text" as const),
    text: words,
    citations: fc.array(citation, { minLength: 1, maxLength: 3 }),
    logprobs: fc.array(token, { minLength: 1, maxLength: 2 }),
    opaque,
  },
  { requiredKeys: ["kind", "text"] },
);
const thinking = fc.record(
  { kind: fc.constant("thinking" as const), text: words, opaque },
  { requiredKeys: ["kind", "text"] },
);
const refusal = fc.record({ kind: fc.constant("refusal" as const), text: words });

const reasons = fc.constantFrom("stop", "stop-sequence", "length", "calls", "refusal", "pause" as const);

/** Answers of one choice that a provider may give; without free text where a client knows no tools that take it. */
const replies = (hasFreeText: boolean): fc.Arbitrary<Reply> => {
  const block: fc.Arbitrary<Block> = fc.oneof(text, thinking, call, refusal, ...(hasFreeText ? [freeTextCall] : []));
  const choice = fc.record(
    { blocks: fc.array(block, { maxLength: 5 }), reason: reasons, explanation: words },
    { requiredKeys: ["blocks", "reason"] },
  );
  return fc.record({
    id: fc.constantFrom("", "msg_1", "resp_1", "chatcmpl-1"),
    model: fc.constant("m"),
    choices: choice.map((one) => [one]),
    usage: fc.constantFrom(undefined, { inputTokens: 9n, cacheReadTokens: 2n, outputTokens: 4n, reasoningTokens: 1n }),
  });
};

function streamOf(dialect: DialectName, reply: Reply): string {
  const writer = clients[dialect]?.createStreamWriter(asked);
  assert.ok(writer);
  return unfoldReply(reply)
    .map((event) => writer.write(event))
    .join("");
}

/** What the stream's events hold, without chat's end mark. */
const eventsOf = (stream: string): unknown[] =>
  stream
    .split("\n\n")
    .map((event) => /^data: (.*)$/m.exec(event)?.[1])
    .filter((data) => data !== undefined && data !== "[DONE]")
    .map((data) => JSON.parse(data ?? ""));

type Model = Exclude<LanguageModel, string>;

const answering = (stream: string) => () =>
  Promise.resolve(new Response(stream, { headers: { "content-type": "text/event-stream" } }));

/** The AI SDK reads each event by a schema of its own. */
const aiModels: Partial<Record<DialectName, (fetch: typeof globalThis.fetch) => Model>> = {
  "openai-chat": (fetch) => createOpenAI({ apiKey: "k", fetch }).chat("m"),
  "openai-responses": (fetch) => createOpenAI({ apiKey: "k", fetch }).responses("m"),
  "anthropic-messages": (fetch) => createAnthropic({ apiKey: "k", fetch })("m"),
};

async function errorsOf(model: Model): Promise<unknown[]> {
  assert.ok("doStream" in model);
  const { stream } = await model.doStream({
    prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
  } as never);
  const errors: unknown[] = [];
  for await (const part of stream as AsyncIterable<{ type: string; error?: unknown }>) {
    if (part.type === "error") errors.push(part.error);
  }
  return errors;
}

const script = join(import.meta.dirname, "../testing/read-chunks.py");
const python = await pythonWith(...officialClients);
const skip = "missing" in python ? python.missing : false;

// The AI SDK's schema of chat, and the Python client's types of it, know functions only.
const repliesIn = (dialect: DialectName) => replies(dialect !== "openai-chat");

// The AI SDK takes free text for a tool as completed only; what a limit has cut is incomplete.
const cutFreeText = /"type":"custom_tool_call","id":"[^"]*","status":"incomplete"/;

for (const dialect of clientNames) {
  test(`every event of a stream in ${dialect} is one that the AI SDK's schemas take`, async () => {
    const check = fc.asyncProperty(repliesIn(dialect), async (reply) => {
      const stream = streamOf(dialect, reply);
      fc.pre(!cutFreeText.test(stream));
      const model = aiModels[dialect]?.(answering(stream));
      assert.ok(model);
      assert.deepEqual(await errorsOf(model), []);
    });
    await fc.assert(check, { numRuns: 100 });
  });
}

test(
  "every event of a stream is of the official Python clients' types, and their helpers add them up",
  { skip },
  () => {
    const lines = clientNames.flatMap((dialect) =>
      fc
        .sample(repliesIn(dialect), 100)
        .map((reply) => JSON.stringify({ dialect, events: eventsOf(streamOf(dialect, reply)) })),
    );
    const options = { input: `${lines.join("\n")}\n`, encoding: "utf8", maxBuffer: 2 ** 26 } as const;
    const { stdout, stderr } = spawnSync("program" in python ? python.program : "", [script], options);
    const problems = stdout.split("\n").filter((line) => line !== "");
    assert.equal(problems.length, lines.length, stderr);
    const wrong = problems.flatMap((problem, at) => (problem === "null" ? [] : [[JSON.parse(problem), lines[at]]]));
    assert.deepEqual(wrong.slice(0, 1), []);
  },
);
