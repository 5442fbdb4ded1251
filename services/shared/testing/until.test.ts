import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "./until.ts";

test("until returns the first truthy value and forgives failures before it", async () => {
  let attempts = 0;
  const value = await until("third attempt", () => {
    attempts += 1;
    if (attempts === 1) throw new Error("not yet");
    return attempts === 3 ? "found" : "";
  });
  assert.equal(value, "found");
});

test("until names the description and the last value or failure when its time is over", async () => {
  await assert.rejects(
    until("a balance", () => 0, 1),
    /not met within 1 ms: a balance; last: 0/,
  );
  const refuse = (): Promise<never> => Promise.reject(new Error("refused"));
  await assert.rejects(until("a row", refuse, 1), /a row; the last attempt failed: Error: refused/);
});
