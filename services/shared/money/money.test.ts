import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatUsd, maxAccountNanos, nanosPerUsd, parseUsd } from "./money.ts";

const largest = 10_000_000_000n * nanosPerUsd - 1n;

test("what is written is read again as the same nano-USD, to the last nano and of either sign", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -largest, max: largest }), (nanos) => {
      assert.equal(parseUsd(formatUsd(nanos)), nanos);
    }),
  );
});

test("an amount has always nine decimals and a sign only when it takes money", () => {
  assert.equal(formatUsd(1_500n), "0.000001500");
  assert.equal(formatUsd(0n), "0.000000000");
  assert.equal(formatUsd(-1n), "-0.000000001");
  assert.equal(formatUsd(12_500_000_000n), "12.500000000");
});

test("missing decimals are zeros", () => {
  assert.equal(parseUsd("12.5"), 12_500_000_000n);
  assert.equal(parseUsd("7"), 7n * nanosPerUsd);
  assert.equal(parseUsd("-0.000000001"), -1n);
});

test("nothing but a plain decimal number with at most nine decimals is an amount", () => {
  const wrong = [
    "",
    " 1",
    "1 ",
    "+1",
    ".5",
    "5.",
    "1e3",
    "1,5",
    "0x10",
    "--1",
    "NaN",
    "1.0000000001",
    "12345678901",
    "١",
  ];
  for (const text of wrong) {
    assert.throws(() => parseUsd(text), { name: "RangeError", message: /is not an amount in USD/ }, text);
  }
});

test("the most that an account may hold is exact as a double, as Redis' Lua counts", () => {
  assert.equal(maxAccountNanos, BigInt(Number.MAX_SAFE_INTEGER));
  assert.equal(BigInt(Number(maxAccountNanos)), maxAccountNanos);
});
