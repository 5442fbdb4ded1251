import assert from "node:assert/strict";
import { test } from "node:test";
import { judge } from "./ledger.ts";

const none = { holds: 0n, unbooked: 0n };
const price = 610_000n;

test("books are right when whole calls are charged in full, to the nano-dollar, and nothing is on its way", () => {
  const calls = { whole: 10, broken: 0 };
  assert.ok(judge(calls, 10n * price, none).isRight);
  assert.ok(!judge(calls, 10n * price + 1n, none).isRight);
  assert.ok(!judge(calls, 10n * price - 1n, none).isRight);
  assert.ok(!judge(calls, 10n * price, { holds: 1n, unbooked: 0n }).isRight);
  assert.ok(!judge(calls, 10n * price, { holds: 0n, unbooked: 1n }).isRight);
});

test("a broken call may have cost a part of its price, never more", () => {
  const calls = { whole: 10, broken: 2 };
  assert.ok(judge(calls, 10n * price, none).isRight);
  assert.ok(judge(calls, 12n * price, none).isRight);
  assert.ok(!judge(calls, 12n * price + 1n, none).isRight);
  assert.match(judge(calls, 12n * price, none).finding, /a part of 2 broken ones/);
});
