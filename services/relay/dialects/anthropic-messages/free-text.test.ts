import fc from "fast-check";
import assert from "node:assert/strict";
import { test } from "node:test";
import { foldReply, type Block } from "../reply.ts";
import { decodeFreeText, endFreeText, type FreeTextDecoder } from "../free-text.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("anthropic-messages");
const createStreamReader = () => createShownReader("anthropic-messages");

/** A call of a free-text tool whose input comes in these fragments. */
function streamed(fragments: string[], input: unknown = {}): Block | undefined {
  const reader = createStreamReader();
  const data = [
    { type: "message_start", message: { id: "msg_1", model: "m" } },
    { type: "content_block_start", content_block: { type: "tool_use", id: "t", name: "relay_text__patch", input } },
    ...fragments.map((part) => ({
      type: "content_block_delta",
      delta: { type: "input_json_delta", partial_json: part },
    })),
    { type: "content_block_stop" },
    { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 1 } },
    { type: "message_stop" },
  ];
  return foldReply(data.flatMap((one) => reader.read(one))).choices[0]?.blocks[0];
}

const call = (input: string): Block => ({ kind: "call", id: "t", name: "patch", isFreeText: true, input });

test("the text of a free-text tool's call is whole however its JSON is cut", () => {
  const text = fc.string({
    unit: fc.constantFrom("a", '"', "\\", "\n", "\u0007", "ü", "\u{1f600}", "{", "}", "\\u12"),
  });
  const spaces = fc.constantFrom("", " ", "\n\t");
  fc.assert(
    fc.property(text, spaces, fc.array(fc.nat(200)), (words, space, cuts) => {
      const json = `{${space}"input"${space}:${space}${JSON.stringify(words)}${space}}`;
      const ends = [...cuts.toSorted((one, other) => one - other), json.length];
      const fragments = ends.map((end, index) => json.slice(ends[index - 1] ?? 0, end));
      assert.deepEqual(streamed(fragments), call(words));
    }),
  );
});

test("a whole input reads the same, in a message and at the start of a block", () => {
  const block = { type: "tool_use", id: "t", name: "relay_text__patch", input: { input: 'a "b"\n' } };
  assert.deepEqual(readReply({ content: [block] })?.choices[0]?.blocks, [call('a "b"\n')]);
  assert.deepEqual(streamed([], block.input), call('a "b"\n'));
});

test("an input that is something else is not lost", () => {
  const long = JSON.stringify({ patch: "x".repeat(100) });
  for (const other of ['{"patch":"x"}', long, "[]"]) assert.deepEqual(streamed([other]), call(other));
  assert.deepEqual(streamed(['{"pat', 'ch":"x"}']), call('{"patch":"x"}'));
  assert.deepEqual(streamed([""]), call(""));
});

test("text that is not escaped as it must be passes as it came; long fragments pass as well", () => {
  assert.deepEqual(streamed(['{"input":"a\nb"}']), call("a\nb"));
  const long = "x\n".repeat(3_000_000);
  assert.deepEqual(streamed([JSON.stringify({ input: long })]), call(long));
});

test("text that is cut off is told as far as it came, and nothing is kept of what was told", () => {
  const decoder: FreeTextDecoder = { pending: "", state: "before" };
  assert.equal(decodeFreeText(decoder, '{"input":"a\\'), "a");
  assert.equal(decodeFreeText(decoder, "n"), "\n");
  assert.equal(decodeFreeText(decoder, "\\u00"), "");
  assert.equal(decoder.pending, "\\u00");
  assert.equal(endFreeText(decoder), "");
});
