import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { countOf, member, stringOf } from "./dialect.ts";

test("reading what others wrote never throws", () => {
  fc.assert(
    fc.property(fc.anything(), fc.string(), (value, key) => {
      member(value, key);
      stringOf(value);
      assert.ok(countOf(value) >= 0n);
    }),
  );
  for (const value of [undefined, null, 7, "text", true]) assert.equal(member(value, "length"), undefined);
  assert.deepEqual(member({ a: { b: 1 } }, "a"), { b: 1 });
});

test("a count is a whole number of at least 0 that a double holds exactly; anything else counts as 0", () => {
  assert.equal(countOf(0), 0n);
  assert.equal(countOf(Number.MAX_SAFE_INTEGER), 9_007_199_254_740_991n);
  for (const value of [null, undefined, Number.NaN, -1, 0.5, Infinity, 2 ** 53, "3", [3], {}])
    assert.equal(countOf(value), 0n);
});
