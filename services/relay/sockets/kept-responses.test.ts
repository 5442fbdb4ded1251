import assert from "node:assert/strict";
import { test } from "node:test";
import { createBodyBudget } from "../http/body-budget.ts";
import { itemsUpTo, KeptResponses } from "./kept-responses.ts";

const budget = createBodyBudget(100_000);
const shareOf = (accountId: string, of = budget) =>
  of.share({ destroyed: false, once: () => undefined as never }, { address: accountId, accountId });
const textUpTo = (kept: KeptResponses, id: string): string => {
  const found = kept.take(id);
  const text = Buffer.concat(itemsUpTo(found)).toString();
  kept.letGo(found);
  return text;
};
const keep = (kept: KeptResponses, id: string, before: string | undefined, text: string): void => {
  const found = before === undefined ? undefined : kept.take(before);
  kept.keep(id, found, Buffer.from(text));
  kept.letGo(found);
};

test("a conversation is what was kept one behind the other, and may be forked", () => {
  const kept = new KeptResponses(shareOf("a"));
  keep(kept, "1", undefined, "a");
  keep(kept, "2", "1", "b");
  keep(kept, "3", "1", "c");
  keep(kept, "4", "2", "");
  assert.deepEqual(
    ["1", "2", "3", "4"].map((id) => textUpTo(kept, id)),
    ["a", "ab", "ac", "ab"],
  );
  assert.equal(kept.take("5"), undefined);
});

test("the oldest go first, and what a newer one continues stays with that", () => {
  const kept = new KeptResponses(shareOf("b"), { maxBytes: 10_000, maxResponses: 2 });
  keep(kept, "1", undefined, "a");
  keep(kept, "2", "1", "b");
  keep(kept, "3", "2", "c");
  assert.equal(kept.take("1"), undefined);
  assert.equal(textUpTo(kept, "3"), "abc");
});

test("bytes are given back with the last that stands on them, and all of them at the end", () => {
  const kept = new KeptResponses(shareOf("c"), { maxBytes: 3_000, maxResponses: 64 });
  const before = budget.bytes();
  keep(kept, "1", undefined, "x".repeat(1_000));
  keep(kept, "2", undefined, "y".repeat(1_000));
  assert.ok(budget.bytes() - before > 2_000);
  keep(kept, "3", undefined, "z".repeat(1_000));
  assert.equal(kept.take("1"), undefined);
  const underWay = kept.take("2");
  keep(kept, "4", undefined, "z".repeat(2_000));
  assert.equal(kept.take("2"), undefined, "its name is gone");
  assert.equal(Buffer.concat(itemsUpTo(underWay)).length, 1_000, "a turn under way still has it");
  kept.letGo(underWay);
  kept.clear();
  assert.deepEqual([kept.bytes, budget.bytes() - before], [0, 0]);
});

test("what is larger than all that may be kept is not kept, and takes nothing", () => {
  const kept = new KeptResponses(shareOf("d"), { maxBytes: 3_000, maxResponses: 64 });
  keep(kept, "1", undefined, "x");
  keep(kept, "2", "1", "x".repeat(4_000));
  assert.deepEqual([kept.take("2"), kept.bytes], [undefined, 0]);
});

test("one account leaves a part of the memory to the next", () => {
  const small = createBodyBudget(10_000);
  const [one, other] = [new KeptResponses(shareOf("one", small)), new KeptResponses(shareOf("other", small))];
  for (let number = 0; number < 20; number += 1) keep(one, `r${number}`, undefined, "x".repeat(1_000));
  assert.ok(small.bytes() <= 8_000, `${small.bytes()}`);
  keep(other, "o", undefined, "y".repeat(1_000));
  assert.equal(textUpTo(other, "o").length, 1_000);
  assert.equal(textUpTo(one, "r19").length, 1_000, "the newest is there");
});
