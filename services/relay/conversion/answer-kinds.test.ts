import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { Reply } from "../dialects/reply.ts";
import { replyReaderOf } from "../dialects/testing/reading.ts";
import { endingKinds } from "../dialects/testing/ending-kinds.ts";
import { answerKinds } from "../testing/answer-kinds.ts";
import { readType } from "../testing/declared-types.ts";

const modules = join(import.meta.dirname, "../../../node_modules");

for (const { format, types, isByType, fates } of answerKinds) {
  test(`every part of an answer of ${format} is shown, or why not is said`, () => {
    const kinds = types.flatMap(({ file, type }) => {
      const { objects } = readType(join(modules, file), type);
      const found = objects.flatMap(({ fields }) =>
        isByType ? (fields.get("type")?.shape().literals ?? []) : [...fields.keys()],
      );
      assert.ok(found.length > 5, "the type has kinds");
      return found.map(String);
    });
    assert.deepEqual(
      [...new Set(kinds)].toSorted(),
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

/** An answer without content that ended for this reason. */
const endedBy: Record<string, (reason: string) => Reply | undefined> = {
  "openai-chat": (finish_reason) =>
    replyReaderOf("openai-chat")({ choices: [{ index: 0, message: { content: "x" }, finish_reason }] }),
  "openai-responses": (reason) =>
    replyReaderOf("openai-responses")({ status: "incomplete", incomplete_details: { reason }, output: [] }),
  "anthropic-messages": (stop_reason) => replyReaderOf("anthropic-messages")({ content: [], stop_reason }),
  "gemini-generate": (finishReason) => replyReaderOf("gemini-generate")({ candidates: [{ finishReason }] }),
};

for (const { format, types, reasons } of endingKinds) {
  test(`every reason for which an answer of ${format} ends is known`, () => {
    const declared = types.flatMap(({ file, type, field }) => {
      const shape = readType(join(modules, file), type);
      const found = (field === undefined ? shape : shape.objects[0]?.fields.get(field)?.shape())?.literals ?? [];
      assert.ok(found.length > 2, "the type has reasons");
      return found.map(String);
    });
    // It stands for none.
    const told = declared.filter((reason) => reason !== "FINISH_REASON_UNSPECIFIED");
    const unknown = told.filter((reason) => !Object.hasOwn(reasons, reason));
    assert.deepEqual(unknown, [], "say in dialects/testing/ending-kinds.ts what it is read as");
    const undeclared = Object.keys(reasons).filter((reason) => !told.includes(reason));
    assert.deepEqual(undeclared, [], "no official client knows it");
    for (const [reason, expected] of Object.entries(reasons))
      assert.equal(endedBy[format]?.(reason)?.choices[0]?.reason, expected, reason);
  });
}
