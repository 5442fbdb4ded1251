import assert from "node:assert/strict";
import { test } from "node:test";
import { isBrokenOff, readFinish } from "./finish-reasons.ts";

test("reasons of other providers, which gateways pass on as they came, are known in any case and with hyphens", () => {
  const nothing = { hasCalls: false, hasRefusal: false };
  for (const name of ["MAX_TOKENS", "max-tokens", "LENGTH"]) assert.equal(readFinish(name, nothing), "length", name);
  for (const name of ["SAFETY", "RECITATION", "content-filter", "refusal"]) {
    assert.equal(readFinish(name, nothing), "refusal", name);
  }
  for (const name of ["STOP", "COMPLETE", "end_turn", "tool-calls"])
    assert.equal(readFinish(name, nothing), "stop", name);
  assert.equal(readFinish("tool-calls", { hasCalls: true, hasRefusal: false }), "calls");
  assert.deepEqual([isBrokenOff("ERROR"), isBrokenOff("stop"), isBrokenOff(undefined)], [true, false, false]);
});
