import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { callIdFor, stableHash } from "./call-id.ts";

test("trap 14 (tool ids: letters, digits, _ and -, at most 64): any id becomes one, always the same", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (id) => {
      assert.match(callIdFor(id), /^[A-Za-z0-9_-]{1,64}$/);
      assert.equal(callIdFor(id), callIdFor(id));
    }),
  );
});

test("an id that every provider takes stays as it is", () => {
  for (const id of ["call_1", "toolu_01Ab-c", "a".repeat(64)]) assert.equal(callIdFor(id), id);
});

test("ids that differ a little become different ids", () => {
  const ids = Array.from({ length: 20_000 }, (_, at) => callIdFor(`functions.weather:${at}`));
  assert.equal(new Set(ids).size, ids.length);
  assert.notEqual(stableHash("ab"), stableHash("ba"));
});
