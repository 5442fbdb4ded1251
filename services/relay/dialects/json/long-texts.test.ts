import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isLongBase64, parseJson, writeJson } from "./long-texts.ts";

const parsed = (parse: (text: string) => unknown, text: string): unknown => {
  try {
    return { value: parse(text) };
  } catch (error) {
    assert.ok(error instanceof SyntaxError);
    return "no JSON";
  }
};

// Some are long enough to be cut out, some not; some have what must not be cut at.
const longTexts = fc
  .tuple(
    fc.constantFrom("", "x", "漢", "a\\b", 'a"b', ":", "ab\\"),
    fc.constantFrom(0, 1, 65_535, 65_536, 300_000),
    fc.constantFrom("", '"', "\\", "\\\\", ':{"a":1}'),
  )
  .map(([unit, length, end]) => unit.repeat(Math.ceil(length / Math.max(1, unit.length))) + end);
const values = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    longTexts,
    fc.constantFrom(1, null, true),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(longTexts, fc.string()), tie("value"), { maxKeys: 4 }),
  ),
})).value;

test("JSON with long texts is what JSON.parse makes of it", () => {
  fc.assert(
    fc.property(values, fc.constantFrom(undefined, " ", "\r\n\t"), (value, indent) => {
      const text = JSON.stringify({ value, end: "y".repeat(262_144) }, undefined, indent);
      assert.deepEqual(parseJson(text), JSON.parse(text));
    }),
    { numRuns: 60 },
  );
});

test("what is no JSON stays none", () => {
  const long = "x".repeat(300_000);
  const texts = [
    `{"a":"${long}`,
    `{"a":"${long}"`,
    `{"a":"${long}"}}`,
    `{"a" "${long}"}`,
    `{"a":"${long}\\"}`,
    `{"a":"${long}" "b"}`,
    `["${long}",]`,
    `{"${long}":1,}`,
  ];
  for (const text of texts)
    assert.deepEqual(
      parsed(parseJson, text),
      parsed((json) => JSON.parse(json), text),
    );
});

test("a name that stands twice has its last value, and a long name stays one", () => {
  const long = "x".repeat(300_000);
  assert.deepEqual(parseJson(`{"a":"${long}","a":"b"}`), { a: "b" });
  assert.deepEqual(parseJson(`{"a":"b","a":"${long}"}`), { a: long });
  assert.deepEqual(parseJson(`{"${long}" \n: "${long}"}`), { [long]: long });
});

test("what stands between texts is not taken for one behind an escaped quote", () => {
  const text = `["a\\"",${"1,".repeat(200_000)}"b\\\\"]`;
  assert.deepEqual(parseJson(text), JSON.parse(text));
});

test("a picture is written as JSON.stringify writes it, wherever it stands, and only what is base64 is taken for one", () => {
  const [one = "", other = ""] = ["Ab+/", "Ab+=", "Aw=="].map((end, at) => "Ab-_".repeat(20_000 + at) + end);
  const long = [one, other, "Aw=="].filter(isLongBase64);
  const value = { a: [one, `data:image/png;base64,${other}`], b: { c: one, d: "short", e: "\n".repeat(70_000) } };
  assert.ok(long.length === 2 && writeJson(value, long) === JSON.stringify(value));
  assert.equal(writeJson({ n: 1 }, []), '{"n":1}');
  for (const text of ["x", `${one}\n`, `"${one}`, `${one.slice(0, -4)}\n${one.slice(0, 3)}`, `${one.slice(4)}é123`]) {
    assert.ok(!isLongBase64(text), JSON.stringify(text.slice(-8)));
  }
});
