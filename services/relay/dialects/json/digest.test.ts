import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { JsonDigest } from "./digest.ts";

/** The likeness of a text that comes in pieces of this many bytes. */
function digestOf(text: string, pieceBytes = 4_099): unknown {
  const bytes = Buffer.from(text);
  const digest = new JsonDigest();
  for (let at = 0; at < bytes.length; at += pieceBytes) digest.add(bytes.subarray(at, at + pieceBytes));
  const likeness = digest.end();
  return likeness && JSON.parse(likeness.toString());
}

test("what is small is the same, however it comes", () => {
  const objects = fc.dictionary(fc.string(), fc.jsonValue());
  fc.assert(
    fc.property(objects, fc.integer({ min: 1, max: 9 }), fc.constantFrom(0, 2), (value, pieceBytes, indent) => {
      const text = JSON.stringify(value, undefined, indent);
      assert.deepEqual(digestOf(text, pieceBytes), JSON.parse(text));
    }),
  );
});

test("usage behind a long list of numbers is whole", () => {
  const usage = { prompt_tokens: 7, total_tokens: 7 };
  const embedding = Array.from({ length: 100_000 }, () => 0.0123456789);
  const body = { data: Array.from({ length: 8 }, (_, index) => ({ index, embedding })), model: "m", usage };
  const likeness = digestOf(JSON.stringify(body)) as typeof body;
  assert.deepEqual([likeness.usage, likeness.model], [usage, "m"]);
  assert.ok(likeness.data.length < 8 && likeness.data[0]?.embedding.length === 100_000);
});

test("long texts are cut between characters and escapes, and all of them count", () => {
  const hard = '\\"\u{1f600}\u2028é\u0007';
  const data = Array.from({ length: 10 }, () => ({ b64_json: hard.repeat(100_000) }));
  for (const space of ["", "x", "xx", "xxx"]) {
    const text = JSON.stringify({ space, data: data.map(({ b64_json }) => ({ b64_json: space + b64_json })) });
    const likeness = digestOf(text) as { data: { b64_json: string }[] };
    assert.equal(likeness.data.length, 10);
    for (const { b64_json } of likeness.data) {
      assert.ok((space + hard.repeat(100_000)).startsWith(b64_json) && b64_json.length < 65_536);
    }
  }
});

test("texts in escapes alone are cut between them", () => {
  const likeness = digestOf(`{"a":"${"\\u00e9".repeat(50_000)}","b":1}`) as { a: string; b: number };
  assert.match(likeness.a, /^é+$/);
  assert.equal(likeness.b, 1);
});

for (const text of ["", "[]", '{"a":1', '{"a":[1}', "<html>", '{"a":1}{"b":2}', '{"a":1}x', "[".repeat(300), '"a"'])
  test(`${text.slice(0, 20) || "nothing"} is no object`, () => assert.equal(digestOf(text), undefined));

test("what is left out of a field takes nothing of the next one", () => {
  const deep = { list: Array.from({ length: 300_000 }, (_, at) => ({ at, more: [{ at }] })) };
  const likeness = digestOf(JSON.stringify({ deep, usage: { a: [1, { b: 2 }] } })) as Record<string, unknown>;
  assert.deepEqual(likeness["usage"], { a: [1, { b: 2 }] });
});
