import assert from "node:assert/strict";
import { test } from "node:test";
import { estimateTokens, type Tally } from "../dialect.ts";
import { tallyReaderOf } from "../testing/reading.ts";

const readReply = tallyReaderOf("anthropic-messages");

const usage = { input_tokens: 10, cache_read_input_tokens: 5, output_tokens: 3 };
const messageOf = (content: unknown, told: unknown = usage) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-served",
  content,
  stop_reason: "end_turn",
  usage: told,
});

test("a whole message is complete, names the model that ran and brings the provider's counts", () => {
  const tally = readReply(messageOf([{ type: "text", text: "12345678" }]));
  assert.ok(tally?.isComplete && tally.hasFinish && tally.hasContent && !tally.isFailed);
  assert.equal(tally.modelServed, "claude-served");
  assert.equal(tally.usage?.inputTokens, 10n);
  assert.equal(tally.usage?.cacheReadTokens, 5n);
  assert.equal(tally.usage?.outputTokens, 3n);
  assert.equal(tally.contentTokens, estimateTokens("12345678"));
});

test("thinking and tool calls are content and counted", () => {
  const content = [
    { type: "thinking", thinking: "1234", signature: "opaque" },
    { type: "tool_use", id: "toolu_1", name: "look", input: { a: 12 } },
  ];
  const tally = readReply(messageOf(content, null));
  assert.equal(tally?.contentTokens, estimateTokens('1234{"a":12}'));
  assert.equal(tally?.usage, undefined);
  assert.equal(tally?.hasContent, true);
});

test("an answer without a block has no content but counts to be paid", () => {
  const tally = readReply(messageOf([]));
  assert.equal(tally?.hasContent, false);
  assert.equal(tally?.usage?.inputTokens, 10n);
});

test("a refusal before any output is not billed, whatever it counts; one behind output is", () => {
  const refusal = (content: object[]) => ({ ...messageOf(content), stop_reason: "refusal" });
  const empty = readReply(refusal([]));
  assert.ok(empty?.isComplete && !empty.hasContent);
  assert.equal(empty.usage, undefined);
  assert.equal(readReply(refusal([{ type: "text", text: "Well," }]))?.usage?.inputTokens, 10n);
  const hidden = { type: "thinking", thinking: "", signature: "opaque" };
  assert.equal(readReply(refusal([hidden]))?.usage?.outputTokens, 3n, "thinking is output, shown or not");
  assert.deepEqual(
    billedCategories((stop_details) => readReply({ ...refusal([]), stop_details })),
    billed,
  );
});

const billed = ["bio", "frontier_llm", "reasoning_extraction", "of_tomorrow"];

/** The categories of refusals whose counts are a bill. */
function billedCategories(read: (details: object | null) => Tally | undefined): unknown[] {
  const categories = [null, "cyber", "general_harms", ...billed];
  const isBilled = (category: string | null): boolean =>
    read({ type: "refusal", category, explanation: null })?.usage !== undefined;
  assert.equal(read(null)?.usage, undefined);
  return categories.filter(isBilled);
}

for (const body of [undefined, null, "text", [], {}, { type: "error", error: {} }, { content: "x" }, { choices: [] }]) {
  test(`what is not a message is not taken for one: ${JSON.stringify(body)}`, () => {
    assert.equal(readReply(body), undefined);
  });
}

test("a whole message tells its tools and the tier that served it", () => {
  const told = { ...usage, service_tier: "batch", server_tool_use: { web_search_requests: 3, web_fetch_requests: 0 } };
  const tally = readReply(messageOf([{ type: "text", text: "x" }], told));
  assert.equal(tally?.serviceTier, "batch");
  assert.deepEqual([tally?.usage?.webSearches, tally?.usage?.webFetches], [3n, 0n]);
});
