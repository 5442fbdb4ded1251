import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { assets } from "./assets.ts";

test("our styles come before Oat's, all of which are in layers, so that ours win in any order", () => {
  assert.match(assets.styleUrls.at(-1) ?? "", /\/oat\.min\.css$/);
  const text = readFileSync(fileURLToPath(import.meta.resolve("@knadh/oat/oat.min.css")), "utf8");
  let [depth, start] = [0, 0];
  const outermost: string[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (depth === 0 && (sign === "{" || sign === ";")) outermost.push(text.slice(start, at).trim());
    if (sign === "{") depth += 1;
    else if (sign === "}") depth -= 1;
    if (depth === 0 && (sign === "}" || sign === ";")) start = at + 1;
  }
  assert.ok(outermost.length > 5);
  assert.deepEqual(
    outermost.filter((rule) => !rule.startsWith("@layer ")),
    [],
  );
});
