import assert from "node:assert/strict";
import { test } from "node:test";
import { foldReply, type Block } from "../reply.ts";
import { createShownReader, replyReaderOf, tallyReaderOf } from "../testing/reading.ts";

// What providers of chat tell of tools that they ran for an answer.

const readReply = replyReaderOf("openai-chat");
const chunk = (fields: object): object => ({ id: "c", model: "served", ...fields });
const delta = (fields: object, finish_reason: string | null = null): object =>
  chunk({ choices: [{ index: 0, delta: fields, finish_reason }] });
function blocksOf(...data: unknown[]): Block[] | undefined {
  const reader = createShownReader("openai-chat");
  const events = [...data, "[DONE]"].flatMap((one) => reader.read(one));
  return foldReply([...events, ...reader.end()]).choices[0]?.blocks;
}

test("pages that a server found are citations of the text, unless it says where it cites them", () => {
  const [one, other] = ["https://a.example/1", "https://b.example/2"];
  const [cited, titled] = [{ url: one }, { url: one, title: "One" }];
  const rows: [what: string, told: object, citations: object[]][] = [
    ["addresses alone (xAI)", { citations: [one, other] }, [cited, { url: other }]],
    [
      "with titles (Perplexity)",
      { citations: [one], search_results: [{ title: "One", url: one, date: "x" }] },
      [titled],
    ],
    ["by another name (Zhipu)", { web_search: [{ title: "One", link: one, content: "x" }] }, [titled]],
    [
      "within another (DashScope)",
      { search_info: { search_results: [{ index: 1, title: "One", url: one }] } },
      [titled],
    ],
    ["none that is a page", { citations: [7, "1", {}] }, []],
  ];
  for (const [what, told, citations] of rows) {
    const text = { kind: "text", text: "Hi", ...(citations.length > 0 && { citations }) };
    // With each chunk they come again.
    const streamed = blocksOf({ ...delta({ content: "Hi" }), ...told }, { ...delta({}, "stop"), ...told });
    assert.deepEqual(streamed, [text], what);
    const choices = [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }];
    assert.deepEqual(readReply({ id: "c", choices, ...told })?.choices[0]?.blocks, [text], what);
  }
  const annotations = [{ type: "url_citation", url_citation: { url: other, start_index: 0, end_index: 2 } }];
  const blocks = blocksOf({ ...delta({ content: "Hi", annotations }, "stop"), citations: [one] });
  assert.deepEqual(blocks, [{ kind: "text", text: "Hi", citations: [{ url: other, start: 0, end: 2 }] }]);
});

test("of the many messages of a choice is shown what its model said, and tools that its provider ran are counted", () => {
  const called = (id: string, name: string): object => ({ id, function: { name, arguments: "{}" } });
  const messages = [
    { role: "assistant", content: "", tool_calls: [called("a", "web_search"), called("b", "look")] },
    { role: "tool", content: "found", tool_call_id: "a" },
    { role: "assistant", content: [{ type: "text", text: "It is so" }] },
  ];
  const body = { id: "c", choices: [{ index: 0, messages, finish_reason: "stop" }] };
  assert.deepEqual(readReply(body)?.choices[0], {
    blocks: [
      { kind: "text", text: "It is so" },
      { kind: "call", id: "b", name: "look", input: "{}" },
    ],
    reason: "calls",
  });
  assert.deepEqual(tallyReaderOf("openai-chat")(body)?.counted, { webSearches: 1n });
  const streamed = blocksOf(delta({ role: "tool", content: "found" }), delta({ content: "It is" }, "stop"));
  assert.deepEqual(streamed, [{ kind: "text", text: "It is" }]);
});
