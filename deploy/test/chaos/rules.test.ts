import assert from "node:assert/strict";
import { test } from "node:test";
import type { Truth } from "#fake-provider/truth.ts";
import type { CallLog } from "../e2e/caller.ts";
import { lossBoundNanos, overspendBoundNanos, wrongRefusals } from "./rules.ts";

const claim = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWrite5mTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 100,
  reasoningTokens: 0,
};

/** A stream of the dear model: 0.001 USD a word. */
function truthOf(tokensEmitted: number, gapMs: number, changes: Partial<Truth> = {}): Truth {
  const served = { dialect: "chat", model: "dear-model", isStream: true, promptTokens: 1, tokensPlanned: 100 } as const;
  const end = { isClaimEmitted: false, ended: "cut", status: 200, startedAt: 0, endedAt: 0 } as const;
  return {
    run: "run",
    sequence: 1,
    rid: "rid",
    ...served,
    ...end,
    claim,
    tokensEmitted,
    behaviour: { gapMs },
    ...changes,
  };
}

// In thousandths of a USD, which is what a word costs.
const words = (nanos: bigint): number => Math.round(Number(nanos / 1_000n) / 1_000);

test("a lost stream may lack 10 words, the last second, and a quarter of the rest, which is how bytes are counted", () => {
  assert.equal(words(lossBoundNanos(truthOf(100, 50))), 10 + 21 + 20);
  assert.equal(words(lossBoundNanos(truthOf(10, 50))), 10 + 10, "all of it within the last second");
  assert.equal(words(lossBoundNanos(truthOf(100, 0))), 10 + 100, "all of it at once");
  assert.equal(words(lossBoundNanos(truthOf(0, 50))), 10, "nothing emitted");
});

test("what the provider counts otherwise is an error of the estimate", () => {
  const told = { isClaimEmitted: true, claim: { ...claim, outputTokens: 250 } };
  assert.equal(words(lossBoundNanos(truthOf(100, 50, told))), 10 + 21 + 20 + 150);
});

test("an account may be below zero by as much as each of its open calls may outgrow its hold", () => {
  // 0.01 USD, 150 words more than were held, and the input.
  assert.equal(words(overspendBoundNanos(1)), 10 + 150 + 10);
  assert.equal(overspendBoundNanos(16), 16n * overspendBoundNanos(1));
});

function callOf(status: number, changes: Partial<CallLog> = {}, accountId = "rich"): CallLog {
  const plan = { accountId, isSound: true, number: status } as CallLog["plan"];
  const ended = { rid: "rid", words: 0, reason: "because", startedAtMs: 0, endedAtMs: 0 };
  return { plan, outcome: "error", status, retryAfter: undefined, ...ended, ...changes };
}

test("sound calls with money are refused with 503 and Retry-After, or not at all", () => {
  const rules = { richIds: new Set(["rich"]) };
  const sound = [callOf(503, { retryAfter: "2" }), callOf(200, { outcome: "whole" }), callOf(403, {}, "poor")];
  assert.deepEqual(wrongRefusals(sound, rules), []);
  const unsound = callOf(401);
  unsound.plan.isSound = false;
  assert.deepEqual(wrongRefusals([unsound], rules), []);
  const wrong = [callOf(401), callOf(403), callOf(500), callOf(503), callOf(401, {}, "poor")];
  assert.deepEqual(
    wrongRefusals(wrong, rules).map((text) => /call (\d+)/.exec(text)?.[1]),
    ["401", "403", "500", "503", "401"],
  );
  assert.deepEqual(wrongRefusals([callOf(500)], { ...rules, alsoAllowed: [500] }), []);
});
