import assert from "node:assert/strict";
import { test } from "node:test";
import { foldReply, type Block } from "../reply.ts";
import { createShownReader, replyReaderOf } from "../testing/reading.ts";

const readReply = replyReaderOf("openai-chat");
const createStreamReader = () => createShownReader("openai-chat");

const chunk = (fields: object): object => ({ id: "c", model: "m", object: "chat.completion.chunk", ...fields });
const delta = (fields: object, finishReason: string | null = null): object =>
  chunk({ choices: [{ index: 0, delta: fields, finish_reason: finishReason }] });
const fragment = (index: number, fields: object, more: object = {}): object => ({
  tool_calls: [{ index, ...more, function: fields }],
});

function blocksOf(...data: object[]): Block[] | undefined {
  const reader = createStreamReader();
  const events = [...data, delta({}, "tool_calls"), "[DONE]"].flatMap((one) => reader.read(one));
  return foldReply([...events, ...reader.end()]).choices[0]?.blocks;
}

test("a function that stands for a tool of free text is one again, however its input is cut", () => {
  const input = 'ls "é😀" \\ \n';
  const call = { kind: "call", id: "a", name: "sh", input, isFreeText: true };
  const opening = fragment(0, { name: "relay_text__sh", arguments: "" }, { id: "a", type: "function" });
  const json = JSON.stringify({ input });
  for (let size = 1; size <= json.length; size += 1) {
    const pieces = Array.from({ length: Math.ceil(json.length / size) }, (_, at) =>
      json.slice(at * size, (at + 1) * size),
    );
    const streamed = pieces.map((piece) => delta(fragment(0, { arguments: piece })));
    assert.deepEqual(blocksOf(delta(opening), ...streamed), [call]);
  }
  const message = {
    tool_calls: [{ id: "a", type: "function", function: { name: "relay_text__sh", arguments: json } }],
  };
  assert.deepEqual(
    readReply(chunk({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] }))?.choices[0]?.blocks,
    [call],
  );
  const other = delta(fragment(0, { arguments: '{"cmd":1}' }));
  assert.deepEqual(blocksOf(delta(opening), other), [{ ...call, input: '{"cmd":1}' }], "the model gave something else");
});
