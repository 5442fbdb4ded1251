import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { replyReaderOf } from "../dialects/testing/reading.ts";
import { answerKinds } from "../testing/answer-kinds.ts";
import { readType } from "../testing/declared-types.ts";

const modules = join(import.meta.dirname, "../../../node_modules");

for (const { format, file, type, isByType, fates } of answerKinds) {
  test(`every part of an answer of ${format} is shown, or why not is said`, () => {
    const { objects } = readType(join(modules, file), type);
    const kinds = objects.flatMap(({ fields }) =>
      isByType ? (fields.get("type")?.shape().literals ?? []) : [...fields.keys()],
    );
    assert.ok(kinds.length > 5, "the type has kinds");
    assert.deepEqual(
      kinds.map(String).toSorted(),
      Object.keys(fates).toSorted(),
      "say in testing/answer-kinds.ts what becomes of it",
    );
  });
}

const responseItems: Record<string, object> = {
  message: { content: [{ type: "output_text", text: "x" }] },
  reasoning: { summary: [{ type: "summary_text", text: "x" }] },
  function_call: { call_id: "c", name: "look", arguments: "{}" },
  custom_tool_call: { call_id: "c", name: "look", input: "x" },
  image_generation_call: { result: "QUJD" },
};
const messageBlocks: Record<string, object> = {
  text: { text: "x" },
  thinking: { thinking: "x", signature: "s" },
  redacted_thinking: { data: "x" },
  tool_use: { id: "t", name: "look", input: {} },
};

test("what is said to be shown is, and nothing else", () => {
  for (const { format, isByType, fates } of answerKinds) {
    if (!isByType) continue;
    for (const [kind, fate] of Object.entries(fates)) {
      const isResponse = format === "openai-responses";
      const part = { type: kind, id: "i", ...(isResponse ? responseItems : messageBlocks)[kind] };
      const reply = isResponse
        ? replyReaderOf("openai-responses")({ status: "completed", output: [part] })
        : replyReaderOf("anthropic-messages")({ content: [part], stop_reason: "end_turn" });
      assert.equal(reply?.choices[0]?.blocks.length ?? 0, "shown" in fate ? 1 : 0, `${format} ${kind}`);
    }
  }
});
