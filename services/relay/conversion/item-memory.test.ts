import assert from "node:assert/strict";
import { test } from "node:test";
import { dialects } from "../dialects/index.ts";
import { envelopeOf } from "../testing/fakes.ts";
import { createItemMemory, withRecalled } from "./item-memory.ts";

const dialect = dialects["openai-responses"];
const message = (id: string, text = "Hi") => ({
  type: "message",
  id,
  status: "completed",
  role: "assistant",
  content: [{ type: "output_text", text, annotations: [] }],
});
const reference = (id: string) => ({ type: "item_reference", id });

function inputOf(input: unknown, recall: (id: string) => string | undefined): unknown {
  const envelope = withRecalled(envelopeOf({ input }, "openai-responses"), dialect, recall, () => undefined);
  return envelope.body.readWhole("input");
}

test("an item that its caller refers to stands in the place of the reference, once; others stay", () => {
  const memory = createItemMemory();
  memory.remember("a", message("msg_1"));
  memory.remember("a", { type: "function_call", id: "fc_1" });
  const input = [{ role: "user", content: "x" }, reference("msg_1"), reference("msg_1"), reference("fc_1")];
  const recall = (owner: string) => (id: string) => memory.recall(owner, id);
  const [question, ...rest] = inputOf(input, recall("a")) as unknown[];
  assert.deepEqual(question, input[0]);
  assert.deepEqual(rest, [message("msg_1"), reference("msg_1"), reference("fc_1")]);
  assert.deepEqual(inputOf(input, recall("b")), input, "of another caller");
  assert.equal(inputOf("item_reference", recall("a")), "item_reference");
});

test("what is recalled counts as input", () => {
  const memory = createItemMemory();
  memory.remember("a", message("msg_1", "word ".repeat(1_000)));
  const envelope = envelopeOf({ input: [reference("msg_1")] }, "openai-responses");
  const whole = withRecalled(
    envelope,
    dialect,
    (id) => memory.recall("a", id),
    () => undefined,
  );
  assert.ok(whole.body.textBytes > envelope.body.textBytes + 5_000);
});

test("the memory keeps the newest items within its bytes, and none that is huge", () => {
  const memory = createItemMemory(10_000);
  for (let at = 0; at < 100; at += 1) memory.remember("a", message(`msg_${at}`));
  assert.equal(memory.recall("a", "msg_0"), undefined);
  assert.ok(memory.recall("a", "msg_99"));
  const large = createItemMemory();
  large.remember("a", message("msg_1", "x".repeat(300_000)));
  assert.equal(large.recall("a", "msg_1"), undefined);
});

test("no request makes more of references than a long conversation has", () => {
  const text = JSON.stringify(message("m", "x".repeat(200_000)));
  const input = Array.from({ length: 100 }, (_, at) => reference(`msg_${at}`));
  const items = inputOf(input, () => text) as { type: string }[];
  assert.ok(items.filter(({ type }) => type === "message").length <= 21);
});
