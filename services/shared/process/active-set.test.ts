import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { createActiveSet } from "./active-set.ts";

type Member = { activeIndex: number; number: number };

test("an active set has the members of a Set, whatever comes, goes, comes twice or was never there", () => {
  const steps = fc.array(fc.record({ isComing: fc.boolean(), number: fc.nat({ max: 9 }) }));
  fc.assert(
    fc.property(steps, (given) => {
      const all = Array.from({ length: 10 }, (_, number): Member => ({ activeIndex: -1, number }));
      const set = createActiveSet<Member>();
      const expected = new Set<Member>();
      for (const { isComing, number } of given) {
        const member = all[number];
        assert.ok(member);
        for (const one of [set, expected]) one[isComing ? "add" : "delete"](member);
        assert.deepEqual(new Set(set), expected);
        assert.equal(set.size, expected.size);
      }
    }),
  );
});

test("members may go while they are looked through", () => {
  const set = createActiveSet<Member>();
  for (let number = 0; number < 10; number += 1) set.add({ activeIndex: -1, number });
  const seen: number[] = [];
  for (const member of set) {
    seen.push(member.number);
    set.delete(member);
  }
  assert.deepEqual([seen.length, set.size], [10, 0]);
});

test("those who have gone are garbage of the young, also once the set itself is old", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options?: { type: "minor" }) => void;
  const set = createActiveSet<Member & { load: number[] }>();
  const pass = (count: number): void => {
    const underWay = Array.from({ length: 64 }, (_, number) => ({ activeIndex: -1, number, load: [] as number[] }));
    for (let number = 0; number < count; number += 1) {
      const member = { activeIndex: -1, number, load: Array.from({ length: 100 }, () => number) };
      const gone = underWay[number % 64];
      if (gone) set.delete(gone);
      set.add(member);
      underWay[number % 64] = member;
    }
    for (const member of underWay) set.delete(member);
  };
  pass(1_000);
  collect();
  collect();
  const before = process.memoryUsage().heapUsed;
  pass(20_000);
  collect({ type: "minor" });
  collect({ type: "minor" });
  const kept = process.memoryUsage().heapUsed - before;
  assert.ok(kept < 8_000_000, `${kept} bytes of 18 MB are still there`);
});
