import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { part, textStart, weightOfUnit } from "../token-weights.ts";
import { weighText } from "./weigh.ts";

/** The weight of a text, code unit by code unit. */
function weightOf(text: string): number {
  let sum = 0;
  let before = textStart;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    sum += weightOfUnit(before, unit);
    before = unit;
  }
  return sum * part;
}

const characters = fc.constantFrom(...Array.from('aeiQZ09 ,.{}"\\\n\t\b\f\r/é漢한яا😀🇩'));
const texts = fc.string({
  unit: fc.oneof(characters, fc.constantFrom(...Array.from("lorem ipsum dolor sit"))),
  maxLength: 300,
});

test("the bytes of a text weigh what its characters do, wherever they lie in memory", () => {
  fc.assert(
    fc.property(texts, fc.nat(7), (text, offset) => {
      const json = JSON.stringify(text).slice(1, -1);
      const escaped = json.replaceAll(
        /[^\0-\x7f]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
      for (const written of [json, escaped]) {
        const bytes = Buffer.concat([Buffer.alloc(offset, "ab"), Buffer.from(written), Buffer.from('"xyz')]);
        assert.equal(weighText(bytes, offset, offset + Buffer.byteLength(written)), weightOf(text));
      }
    }),
    { numRuns: 2_000 },
  );
});

test("backslashes in a text that is no JSON hide nothing of it", () => {
  const bytes = Buffer.from("\\q7#Z\\".repeat(1_000));
  assert.ok(weighText(bytes, 0, bytes.length) >= weightOf("q7#Z".repeat(1_000)));
});

const mebibyte = 1024 * 1024;
const heavy = "xq7#";
const light = "rest of these words ";

/** Light text with a heavy piece in each so many bytes. */
function mixed(everyBytes: number, heavyBytes: number, at: number): string {
  const block = light.repeat(everyBytes / light.length + 1).slice(0, everyBytes - heavyBytes);
  const piece = heavy.repeat(heavyBytes / heavy.length);
  return (block.slice(0, at) + piece + block.slice(at)).repeat(4 * (mebibyte / everyBytes));
}

// What the sample of a large text comes to lies, in nearly all of a million times, within twice this of the whole.
const margin = 0.06;

for (const [name, text] of [
  ["words", light.repeat((4 * mebibyte) / light.length)],
  ["a heavy piece in each block", mixed(4_096, 1_024, 2_000)],
  ["heavy pieces in the last quarter of each block", mixed(4_096, 1_024, 3_072)],
  ["heavy and light blocks", mixed(65_536, 32_768, 0)],
  ["another script", "漢字かな".repeat(mebibyte / 4)],
] as const) {
  test(`a large text weighs about what its characters do: ${name}`, () => {
    const bytes = Buffer.from(text);
    const ratio = weighText(bytes, 0, bytes.length) / weightOf(text);
    assert.ok(Math.abs(ratio - 1) < 2 * margin, `${ratio}`);
  });
}
