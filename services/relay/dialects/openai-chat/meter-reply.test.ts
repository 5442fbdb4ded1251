import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTally, estimateTokens, type Tally } from "../dialect.ts";
import { dialects } from "../index.ts";
import { envelopeOf, tallyReaderOf } from "../testing/reading.ts";

const readReply = tallyReaderOf("openai-chat");

/** What is counted of a message, as a whole one and as a delta. */
const counted = (message: unknown): Tally => {
  const tap = dialects["openai-chat"].createTap(envelopeOf(), (error) => error);
  const tally = emptyTally();
  tap.read({ data: "", json: { choices: [{ index: 0, delta: message }] } }, tally);
  return tally;
};

const completion = (message: unknown, usage?: unknown) => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  model: "gpt-served",
  choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
  usage,
});

test("a whole completion is complete, names the model that ran and brings the provider's counts", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
  const tally = readReply(completion({ role: "assistant", content: "Hello there" }, usage));
  assert.ok(tally?.isComplete && tally.hasFinish && tally.hasContent && !tally.isFailed);
  assert.equal(tally.modelServed, "gpt-served");
  assert.equal(tally.usage?.inputTokens, 9n);
  assert.equal(tally.usage?.outputTokens, 4n);
});

test("a completion without usage has none, and its content is counted", () => {
  const tally = readReply(completion({ role: "assistant", content: "12345678" }));
  assert.equal(tally?.usage, undefined);
  assert.equal(tally?.contentTokens, estimateTokens("12345678"));
});

test("an answer whose text is empty but whose output was counted has content: it must be paid", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 64, completion_tokens_details: { reasoning_tokens: 64 } };
  assert.equal(readReply(completion({ role: "assistant", content: "" }, usage))?.hasContent, true);
  assert.equal(readReply(completion({ role: "assistant", content: "" }))?.hasContent, false);
});

test("all choices count", () => {
  const message = { role: "assistant", content: "1234" };
  const body = { choices: [{ message }, { message }, { message }] };
  assert.equal(readReply(body)?.contentTokens, 3 * estimateTokens("1234"));
});

test("reasoning that only the total tells is counted for a model that is known to count so", () => {
  const usage = { prompt_tokens: 40, completion_tokens: 7, total_tokens: 109 };
  const body = { choices: [{ message: { content: "x" } }], usage };
  const counted = readReply(body, new Set(["reasoning-in-total"]));
  assert.deepEqual([counted?.usage?.outputTokens, counted?.usage?.reasoningTokens], [7n, 62n]);
  assert.equal(readReply(body)?.usage?.reasoningTokens, 0n);
});

for (const body of [
  undefined,
  null,
  "text",
  7,
  [],
  {},
  { error: { message: "no" } },
  { choices: "x" },
  { content: [] },
]) {
  test(`what is not a chat completion is not taken for one: ${JSON.stringify(body)}`, () => {
    assert.equal(readReply(body), undefined);
  });
}

const contentRows: [string, unknown, string][] = [
  ["content", { content: "12345678" }, "12345678"],
  ["a refusal", { refusal: "12345678" }, "12345678"],
  [
    "reasoning_content (trap 17: from chat upstreams it is thinking, and counts)",
    { reasoning_content: "12345678" },
    "12345678",
  ],
  ["reasoning, the other name of it", { reasoning: "12345678" }, "12345678"],
  ["both names with the same thought, once", { reasoning: "12345678", reasoning_content: "12345678" }, "12345678"],
  ["reasoning beside content", { reasoning_content: "1234", content: "1234" }, "12341234"],
  ["a function call", { tool_calls: [{ function: { name: "look", arguments: '{"a":1}x' } }] }, 'look{"a":1}x'],
  ["a custom tool call", { tool_calls: [{ type: "custom", custom: { name: "look", input: "1234" } }] }, "look1234"],
  [
    "every parallel call (trap 20)",
    { tool_calls: [{ function: { arguments: "1234" } }, { function: { name: "look" } }] },
    "1234look",
  ],
  ["a call without arguments", { tool_calls: [{ function: { name: "look", arguments: "" } }] }, "look"],
  ["an old-style function call", { function_call: { name: "look", arguments: "1234" } }, "look1234"],
  ["speech, by its transcript", { audio: { id: "a", data: "UklGRg", transcript: "12345678" } }, "12345678"],
  ["speech without a transcript yet", { audio: { data: "UklGRg" } }, ""],
  ["other scripts", { content: "漢字é" }, "漢字é"],
];

for (const [what, message, text] of contentRows) {
  test(`content is ${what}`, () => {
    assert.equal(counted(message).hasContent, true);
    assert.equal(counted(message).contentTokens, estimateTokens(text));
  });
}

for (const message of [
  undefined,
  null,
  {},
  { role: "assistant" },
  { role: "assistant", content: "", refusal: null },
  { content: null, tool_calls: [] },
  { tool_calls: null },
  { audio: null, function_call: null },
]) {
  test(`no content is ${JSON.stringify(message)}`, () => {
    assert.deepEqual(counted(message), emptyTally());
  });
}

test("calls without what a call has do not raise", () => {
  assert.equal(
    counted({ tool_calls: [null, {}, { function: null }, { function: { arguments: 7 } }] }).contentTokens,
    0,
  );
});
