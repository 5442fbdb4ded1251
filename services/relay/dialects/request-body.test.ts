import assert from "node:assert/strict";
import { test } from "node:test";
import { landmarks, readJsonBody } from "./request-body.ts";

const mayHold = (text: string): string[] => {
  const body = readJsonBody(Buffer.from(text));
  return Object.entries(landmarks).flatMap(([name, landmark]) => (body.mayHold(landmark) ? [name] : []));
};

test("a name or a text that dialects look for is met wherever it begins, at any depth", () => {
  assert.deepEqual(mayHold('{"messages":[{"extra_content":{}}]}'), ["extraContent"]);
  assert.deepEqual(mayHold('{"messages":[{"a":1, "b":[], "extra_content" : 1}]}'), ["extraContent"]);
  assert.deepEqual(mayHold('{"input":[{"deep":[[{"encrypted_content":"relay.1.x"}]]}]}'), ["note"]);
  assert.deepEqual(mayHold('{"input":"relay.1","messages":[{"extra_content":["relay.","relay."]}]}'), [
    "extraContent",
    "note",
  ]);
  const note = `relay.1.openai-responses.${"QUJD".repeat(1_000)}`;
  assert.deepEqual(mayHold(JSON.stringify({ messages: [{ signature: note }] })), ["note"]);
});

test("what only looks like it is not met", () => {
  assert.deepEqual(mayHold("{}"), []);
  assert.deepEqual(mayHold('{"messages":["extra_conten","extra_contents","a relay.","relay","\\"relay."]}'), []);
  assert.deepEqual(mayHold(JSON.stringify({ messages: [{ content: '{"extra_content":"relay.1"}' }] })), []);
});
