import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reversal } from "../store/reversals.ts";
import { takenBack } from "./taken-back.ts";

const paid = 1_000n;
type Told = [what: Reversal["what"], objectId: string, amount: number, createdS: number];

const reversalsOf = (told: Told[]): Reversal[] =>
  told.map(([what, objectId, amount, createdS], index) => ({
    eventId: `evt_${index}`,
    what,
    objectId,
    amountNanos: BigInt(amount),
    createdS,
  }));

function orders<T>(items: T[]): T[][] {
  if (items.length < 2) return [items];
  return items.flatMap((item, at) => orders(items.toSpliced(at, 1)).map((rest) => [item, ...rest]));
}

const rows: [name: string, told: Told[], taken: bigint][] = [
  ["nothing", [], 0n],
  ["a refund", [["refunded", "ch", 1_000, 1]], 1_000n],
  [
    "partial refunds, each told with those before",
    [
      ["refunded", "ch", 300, 1],
      ["refunded", "ch", 500, 2],
    ],
    500n,
  ],
  [
    "two refunds of one second",
    [
      ["refunded", "ch", 300, 1],
      ["refunded", "ch", 500, 1],
    ],
    500n,
  ],
  [
    "a refund that fails",
    [
      ["refunded", "ch", 1_000, 1],
      ["refund-failed", "re", 1_000, 9],
    ],
    0n,
  ],
  [
    "a refund that fails in the second in which it was made",
    [
      ["refunded", "ch", 1_000, 1],
      ["refund-failed", "re", 1_000, 1],
    ],
    0n,
  ],
  [
    "a refund that fails and is made again",
    [
      ["refunded", "ch", 1_000, 1],
      ["refund-failed", "re_1", 1_000, 2],
      ["refunded", "ch", 1_000, 3],
    ],
    1_000n,
  ],
  [
    "one of two refunds that fails",
    [
      ["refunded", "ch", 300, 1],
      ["refunded", "ch", 800, 2],
      ["refund-failed", "re_1", 300, 3],
    ],
    500n,
  ],
  ["a dispute", [["disputed", "dp", 1_000, 1]], 1_000n],
  [
    "a dispute that is told twice and lost",
    [
      ["disputed", "dp", 1_000, 1],
      ["disputed", "dp", 1_000, 1],
      ["disputed", "dp", 1_000, 5],
    ],
    1_000n,
  ],
  [
    "a dispute that is won",
    [
      ["disputed", "dp", 1_000, 1],
      ["dispute-ended", "dp", 1_000, 7],
      ["dispute-ended", "dp", 1_000, 7],
    ],
    0n,
  ],
  [
    "a refund of a part and a dispute of the rest",
    [
      ["refunded", "ch", 400, 1],
      ["disputed", "dp", 600, 2],
    ],
    1_000n,
  ],
  [
    "a refund and a dispute of the same money",
    [
      ["refunded", "ch", 1_000, 1],
      ["disputed", "dp", 1_000, 2],
    ],
    1_000n,
  ],
  [
    "a dispute that is won and another",
    [
      ["disputed", "dp_1", 1_000, 1],
      ["dispute-ended", "dp_1", 1_000, 2],
      ["disputed", "dp_2", 250, 3],
    ],
    250n,
  ],
];

test("what has gone back of a payment follows from what was said, in any order and however often", () => {
  for (const [name, told, taken] of rows) {
    for (const order of orders(reversalsOf(told))) {
      assert.equal(takenBack(order, paid), taken, name);
      assert.equal(takenBack([...order, ...order.toReversed()], paid), taken, `${name}, twice`);
    }
  }
});
