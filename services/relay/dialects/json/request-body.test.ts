import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RequestError } from "../request-error.ts";
import { countCodePoints } from "./bytes.ts";
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

const bodyOf = (text: string) => readJsonBody(Buffer.from(text));

test("characters of a text are counted as a decoder gives them, without decoding it", () => {
  const unit = fc.constantFrom(
    "a",
    "é",
    "漢",
    "😀",
    "\\n",
    '\\"',
    "\\\\",
    "\\u00e9",
    "\\ud83d",
    "\\uDE00",
    "\\ud83d\\ude00",
  );
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 30 }), (units) => {
      const text = `"${units.join("")}"`;
      assert.equal(
        bodyOf(`{"input": ${text} }`).countCharacters("input"),
        Array.from(JSON.parse(text) as string).length,
      );
    }),
    { numRuns: 2_000 },
  );
  for (const text of ["{}", '{"input":7}', '{"input":["a"]}'])
    assert.equal(bodyOf(text).countCharacters("input"), undefined);
});

test("bytes that are no UTF-8 count as no fewer characters than a decoder makes of them", () => {
  const piece = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 4 }).filter((bytes) => bytes.every((byte) => byte > 0x7f)),
    fc.constantFrom("é", "漢", "😀", "a").map((text) => Buffer.from(text)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 10 }), (pieces) => {
      const text = Buffer.concat(pieces);
      const body = Buffer.concat([Buffer.from('{"input":"'), text, Buffer.from('"}')]);
      assert.ok((readJsonBody(body).countCharacters("input") ?? 0) >= Array.from(text.toString()).length);
    }),
    { numRuns: 2_000 },
  );
});

test("items of a list are counted up to a number, and the first one is told by its first byte", () => {
  const count = (text: string, most = 100): unknown => bodyOf(`{"a":${text}}`).countItems("a", most);
  const firstOf = (text: string): number => text.charCodeAt(0);
  assert.deepEqual(count("[]"), { count: 0, first: undefined });
  assert.deepEqual(count(' [ "x" , [1,2] ,{"b":[3]}, 4 ] '), { count: 4, first: firstOf('"') });
  assert.deepEqual(count("[[1],[2],[3]]", 2), { count: 2, first: firstOf("[") });
  for (const text of ['"x"', "{}", "1", "null"]) assert.equal(count(text), undefined);
  assert.equal(bodyOf("{}").countItems("a", 1), undefined);
});

test("a text may have so many characters, whatever they take as bytes", () => {
  const read = (value: unknown): unknown => bodyOf(JSON.stringify({ a: value })).readText("a", 3);
  for (const text of ["", "abc", "漢字é", "😀😀😀"]) assert.equal(read(text), text);
  assert.equal(bodyOf(`{"a":"${"\\ud83d\\ude00".repeat(3)}"}`).readText("a", 3), "😀😀😀");
  for (const text of ["abcd", "😀😀😀a", "a".repeat(1_000)]) {
    assert.throws(() => read(text), { constructor: RequestError, message: "field a must have at most 3 characters" });
  }
  for (const value of [7, null, ["a"], { a: 1 }]) {
    assert.throws(() => read(value), { constructor: RequestError, message: "field a must be a string" });
  }
  assert.equal(bodyOf("{}").readText("a", 3), undefined);
});

test("escapes are told apart by their bytes, so that millions of them hold nothing up", (context) => {
  const text = Buffer.from(String.raw`\ud83d\uDE00`.repeat(1_000));
  const decoded = context.mock.method(text, "toString");
  assert.equal(countCodePoints(text, 0, text.length), 1_000);
  assert.equal(decoded.mock.callCount(), 0);
});
