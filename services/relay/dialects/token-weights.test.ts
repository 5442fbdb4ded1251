import assert from "node:assert/strict";
import { test } from "node:test";
import { estimateTokens } from "./token-weights.ts";

const weighInParts = (text: string): number => {
  let sum = 0;
  for (let at = 0; at < text.length; at += 65_536) sum += estimateTokens(text.slice(at, at + 65_536));
  return sum;
};

test("megabytes are weighed by samples, to within a twentieth of all of them", () => {
  const words = ["the", "quick", "Köln", "漢字", "0x7f", "{}", "--", "Привет", "\n\n", "antidisestablishment"];
  let [text, seed] = ["", 7];
  while (text.length < 3_000_000) {
    seed = (seed * 48_271) % 2_147_483_647;
    text += `${words[seed % words.length]} `;
  }
  const ratio = estimateTokens(text) / weighInParts(text);
  assert.ok(Math.abs(ratio - 1) < 0.05, `${ratio} of the whole`);
});

test("up to 256 KiB a text weighs what its pieces do", () => {
  const text = "Abc, 漢 9".repeat(32_768).slice(0, 262_144);
  assert.equal(estimateTokens(text), weighInParts(text));
  assert.notEqual(estimateTokens(`${text}x`), 0);
});
