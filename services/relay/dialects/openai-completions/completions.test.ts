import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTally, type Envelope, estimateTokens } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { readEnvelope } from "./request.ts";
import { readStreamEvent } from "../sse.ts";
import { dialects } from "../index.ts";
import { tallyReaderOf } from "../testing/reading.ts";

const { createTap } = dialects["openai-completions"];
const readReply = tallyReaderOf("openai-completions");

const withFields = (fields: object): Envelope =>
  readEnvelope(readJsonBody(Buffer.from(JSON.stringify({ model: "m", prompt: "x", ...fields }))), "m");

const promptRows: [string, object, number][] = [
  ["a text", { prompt: "x" }, 1],
  ["a list of texts", { prompt: ["a", "b", "c"] }, 3],
  ["a list of tokens", { prompt: [1, 2, 3] }, 1],
  ["lists of tokens", { prompt: [[1], [2]] }, 2],
  ["several choices of each", { prompt: ["a", "b"], n: 3 }, 6],
  ["best_of that are all made", { prompt: "a", n: 1, best_of: 5 }, 5],
  ["all that the dearest request makes", { prompt: Array(2_048).fill("a"), best_of: 128 }, 262_144],
];
for (const [what, fields, choices] of promptRows) {
  test(`completions that are made: ${what}`, () => assert.equal(withFields(fields).choices, choices));
}

test("more completions than a provider makes are refused, for a server that makes them could not be paid for", () => {
  assert.throws(() => withFields({ n: 129 }), /field n must be at most 128/);
  assert.throws(() => withFields({ best_of: 1e9 }), /field best_of must be at most 128/);
  assert.throws(() => withFields({ prompt: Array(2_049).fill([1]) }), /field prompt must have at most 2048 items/);
});

test("a whole text completion is counted by the provider's usage", () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  const tally = readReply({ object: "text_completion", model: "served", choices: [{ text: "12345678" }], usage });
  assert.ok(tally?.isComplete && tally.hasContent);
  assert.equal(tally.usage?.outputTokens, 2n);
  assert.equal(tally.contentTokens, estimateTokens("12345678"));
  assert.equal(readReply({ choices: "x" }), undefined);
});

test("a streamed text completion is whole at [DONE] behind a finish_reason; its usage chunk is for who asked", () => {
  const chunk = (fields: object): Buffer => Buffer.from(`data: ${JSON.stringify(fields)}\n\n`);
  const events = [
    chunk({ choices: [{ text: "12345678", finish_reason: null }] }),
    chunk({ choices: [{ text: "", finish_reason: "stop" }] }),
    chunk({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } }),
    Buffer.from("data: [DONE]\n\n"),
  ];
  const tally = emptyTally();
  const tap = createTap(withFields({ stream: true }), (error) => error);
  assert.deepEqual(
    events.map((event) => tap.read(readStreamEvent(event), tally)),
    ["pass", "pass", "drop", "pass"],
  );
  assert.ok(tally.isComplete && tally.hasContent);
  assert.equal(tally.usage?.outputTokens, 2n);
  assert.equal(tap.end(tally), "");
});
