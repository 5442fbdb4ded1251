import assert from "node:assert/strict";
import { test } from "node:test";
import { estimateTokens } from "../dialect.ts";
import { tallyReaderOf } from "../testing/reading.ts";

const readReply = tallyReaderOf("openai-responses");

const usage = { input_tokens: 9, output_tokens: 4, total_tokens: 13 };
const message = { type: "message", role: "assistant", content: [{ type: "output_text", text: "12345678" }] };

test("a whole response is complete, names the model that ran and brings the provider's counts", () => {
  const tally = readReply({ object: "response", model: "gpt-served", output: [message], usage });
  assert.ok(tally?.isComplete && tally.hasFinish && tally.hasContent);
  assert.equal(tally.modelServed, "gpt-served");
  assert.equal(tally.usage?.inputTokens, 9n);
  assert.equal(tally.usage?.outputTokens, 4n);
});

test("without usage, texts, calls, refusals and summaries are counted, what is encrypted is not", () => {
  const call = { type: "function_call", name: "look", arguments: "1234" };
  const thought = {
    type: "reasoning",
    summary: [{ type: "summary_text", text: "1234" }],
    encrypted_content: "12345678",
  };
  const refusal = { type: "message", content: [{ type: "refusal", refusal: "1234" }] };
  assert.equal(
    readReply({ output: [message, call, thought, refusal] })?.contentTokens,
    estimateTokens("12345678look123412341234"),
  );
});

test("calls of tools that the provider bills are counted, others are not", () => {
  const output = [
    { type: "web_search_call" },
    { type: "web_search_call", action: { type: "search", query: "x" } },
    { type: "web_search_call", action: { type: "open_page", url: "https://a.example" } },
    { type: "web_search_call", action: { type: "find_in_page", url: "https://a.example", pattern: "x" } },
    { type: "file_search_call" },
    { type: "code_interpreter_call", container_id: "cntr_1" },
    { type: "code_interpreter_call", container_id: "cntr_1" },
    { type: "x_search_call" },
    { type: "mcp_call" },
    message,
  ];
  assert.deepEqual(readReply({ output, usage })?.counted, {
    webSearches: 2n,
    fileSearches: 1n,
    codeSessions: 1n,
    toolCalls: 1n,
  });
  assert.deepEqual(readReply({ output: [message], usage })?.counted, {});
});

test("an answer without output that was paid for has content; one without either has none", () => {
  assert.equal(readReply({ output: [], usage })?.hasContent, true);
  assert.equal(readReply({ output: [], usage: null })?.hasContent, false);
  assert.equal(readReply({ object: "response", output: null, usage })?.usage?.outputTokens, 4n);
  assert.equal(readReply({ object: "response", output: null, usage })?.hasContent, true);
});

for (const body of [undefined, null, 7, "text", [], {}, { output: "x" }, { error: { message: "no" } }]) {
  test(`what is not a response is not taken for one: ${JSON.stringify(body)}`, () => {
    assert.equal(readReply(body), undefined);
  });
}
