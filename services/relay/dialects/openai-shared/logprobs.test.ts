import assert from "node:assert/strict";
import { test } from "node:test";
import fastCheck from "fast-check";
import type { Conversation } from "../conversation.ts";
import { clients, providers } from "../conversions.ts";
import { readLogprobs, writeLogprobs } from "./logprobs.ts";
import { foldReply, unfoldReply, type Reply } from "../reply.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const target = { model: "m", maxOutputTokens: 1000, quirks: new Set<never>() };
const asked = { model: "m", wantsStreamUsage: true };
const formats = ["openai-chat", "openai-responses"] as const;

test("tokens without bytes: null in chat, an empty list in Responses; both read as none", () => {
  const tokens = [{ token: "A", logprob: -1, alternatives: [] }];
  for (const noBytes of [null, [] as []]) {
    const written = writeLogprobs(tokens, noBytes);
    assert.deepEqual(written, [{ token: "A", logprob: -1, bytes: noBytes, top_logprobs: [] }]);
    assert.deepEqual(readLogprobs(written), tokens);
  }
});

test("any data is read as tokens or as none", () => {
  fastCheck.assert(
    fastCheck.property(fastCheck.anything(), fastCheck.array(fastCheck.anything()), (data, list) => {
      for (const tokens of [readLogprobs(data), readLogprobs(list)]) assert.notEqual(tokens?.length, 0);
    }),
  );
});

test("logprobs asked for in one of OpenAI's formats are asked for in the other; who cannot give them is named", () => {
  const requests = {
    "openai-chat": { messages: [{ role: "user", content: "Hi" }], logprobs: true, top_logprobs: 3 },
    "openai-responses": { input: "Hi", include: ["message.output_text.logprobs"], top_logprobs: 3 },
  };
  for (const from of formats) {
    const conversation = clients[from]?.readRequest(requests[from]).conversation as Conversation;
    assert.equal(conversation.topLogprobs, 3);
    for (const to of formats) assert.equal(providers[to]?.writeRequest(conversation, target).body["top_logprobs"], 3);
    for (const to of ["anthropic-messages", "gemini-generate"] as const) {
      assert.deepEqual([...(providers[to]?.writeRequest(conversation, target).losses ?? [])], ["logprobs"], to);
    }
  }
});

const alternatives = [
  { token: "Yo", logprob: -2, bytes: [89, 111] },
  { token: "end", logprob: -9 },
];
const logprobs = [
  { token: "Hel", logprob: -0.5, bytes: [72, 101, 108], alternatives },
  { token: "lo", logprob: 0, alternatives: [] },
];
const reply: Reply = {
  id: "1",
  model: "m",
  createdAtSeconds: 5,
  choices: [{ blocks: [{ kind: "text", text: "Hello", logprobs }], reason: "stop" }],
  usage: undefined,
};

test("an answer with logprobs unfolds into events and folds back", () => {
  assert.deepEqual(foldReply(unfoldReply(reply)), reply);
});

for (const name of formats) {
  test(`logprobs arrive as the provider told them, whole and streamed: ${name}`, () => {
    const whole = clients[name]?.writeReply(reply, asked);
    assert.deepEqual(replyReaderOf(name)(JSON.parse(JSON.stringify(whole)))?.choices, reply.choices);
    const writer = clients[name]?.createStreamWriter(asked);
    const reader = createShownReader(name);
    const records = unfoldReply(reply).flatMap((event) => writer?.write(event).split("\n\n").slice(0, -1) ?? []);
    const data = records.map((record) => record.slice(record.indexOf("data: ") + "data: ".length));
    const events = data.flatMap((text) => reader?.read(text === "[DONE]" ? text : JSON.parse(text)) ?? []);
    assert.deepEqual(foldReply([...events, ...(reader?.end() ?? [])]).choices, reply.choices);
  });
}

test("a caller of Messages gets the text without them", () => {
  const messages = clients["anthropic-messages"];
  const writer = messages?.createStreamWriter(asked);
  const stream = unfoldReply(reply).map((event) => writer?.write(event));
  assert.equal(stream.join("").includes("logprob"), false);
  assert.equal(JSON.stringify(messages?.writeReply(reply, asked)).includes("logprob"), false);
});
