import assert from "node:assert/strict";
import { test } from "node:test";
import { shortUsd } from "./amounts.ts";

test("amounts have two to six decimals, the more the smaller, and are never shown as zero when they are not", () => {
  const shown: [bigint, string][] = [
    [0n, "$0.00"],
    [1n, "<$0.000001"],
    [-999n, "-<$0.000001"],
    [1_000n, "$0.000001"],
    [123_456_789n, "$0.123457"],
    [500_000_000n, "$0.50"],
    [999_999_999n, "$1.00"],
    [1_071_000_004n, "$1.071"],
    [-23_928_999_996n, "-$23.929"],
    [99_999_960_000n, "$100.00"],
    [1_234_567_891_000_000n, "$1,234,567.89"],
  ];
  assert.deepEqual(
    shown.map(([nanos]) => shortUsd(nanos)),
    shown.map(([, text]) => text),
  );
});
