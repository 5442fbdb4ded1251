import assert from "node:assert/strict";
import { test } from "node:test";
import { exactMoney, shortUsd } from "./amounts.ts";
import { render } from "./html.ts";

test("amounts have cents from a dollar on, more decimals below, and are never shown as zero when they are not", () => {
  const shown: [bigint, string][] = [
    [0n, "$0.00"],
    [1n, "<$0.000001"],
    [-999n, "-<$0.000001"],
    [1_000n, "$0.000001"],
    [9_123_456n, "$0.009123"],
    [20_099_999n, "$0.0201"],
    [123_456_789n, "$0.1235"],
    [399_000_000n, "$0.3990"],
    [999_999_999n, "$1.0000"],
    [1_071_000_004n, "$1.07"],
    [-23_928_999_996n, "-$23.93"],
    [99_999_960_000n, "$100.00"],
    [1_234_567_891_000_000n, "$1,234,567.89"],
  ];
  assert.deepEqual(
    shown.map(([nanos]) => shortUsd(nanos)),
    shown.map(([, text]) => text),
  );
});

test("what somebody has set is shown exactly", () => {
  const shown = [0n, 75_000_000n, 500_000_000n, 1_125_000_000n, 3_000_000_007n, 1_234_567_000_000_000n].map(
    (nanos) => /title="([^"]+) USD">\$([\d.,]+)</.exec(render(exactMoney(nanos))) ?? [],
  );
  assert.deepEqual(
    shown.map(([, , text]) => text),
    ["0.00", "0.075", "0.50", "1.125", "3.000000007", "1,234,567.00"],
  );
  for (const [, title, text] of shown) assert.equal(text?.replaceAll(",", ""), title);
});
