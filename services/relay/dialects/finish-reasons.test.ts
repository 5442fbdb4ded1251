import assert from "node:assert/strict";
import { test } from "node:test";
import { endingKinds } from "./testing/ending-kinds.ts";
import { readStopReason } from "./anthropic-messages/finish-reasons.ts";
import { endingOf, finishReasonOf } from "./gemini-generate/finish-reasons.ts";
import { readFinish } from "./openai-chat/finish-reasons.ts";
import { readReason } from "./openai-responses/finish-reasons.ts";
import type { FinishReason } from "./reply.ts";

const geminiReason = (name: string): FinishReason | undefined =>
  endingOf({ finishReason: name }) === undefined ? undefined : finishReasonOf(name, false);

const readers: Record<string, (reason: string) => FinishReason | undefined> = {
  "anthropic-messages": readStopReason,
  "openai-chat": (name) => readFinish(name, { hasCalls: false, hasRefusal: false }),
  "openai-responses": (reason) => readReason({ incomplete_details: { reason } }, true, false),
  "gemini-generate": geminiReason,
};

for (const { format, reasons } of endingKinds) {
  test(`every reason that ends an answer of ${format} is read`, () => {
    const names = Object.keys(reasons);
    assert.ok(names.length > 3);
    assert.deepEqual(Object.fromEntries(names.map((name) => [name, readers[format]?.(name)])), reasons);
  });
}

test("an answer of Gemini without a reason goes on", () => {
  assert.equal(geminiReason("FINISH_REASON_UNSPECIFIED"), undefined);
});
