import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { createRoster } from "./roster.ts";

type Member = { place: number; number: number };

test("a roster has whom a set would have, whatever comes, goes, comes twice or was never there", () => {
  const steps = fc.array(fc.record({ isComing: fc.boolean(), number: fc.nat({ max: 9 }) }));
  fc.assert(
    fc.property(steps, (given) => {
      const all = Array.from({ length: 10 }, (_, number): Member => ({ place: -1, number }));
      const roster = createRoster<Member>();
      const expected = new Set<Member>();
      for (const { isComing, number } of given) {
        const member = all[number];
        assert.ok(member);
        for (const one of [roster, expected]) one[isComing ? "add" : "delete"](member);
        assert.deepEqual(new Set(roster), expected);
        assert.equal(roster.size, expected.size);
      }
    }),
  );
});

test("members may go while they are looked through", () => {
  const roster = createRoster<Member>();
  for (let number = 0; number < 10; number += 1) roster.add({ place: -1, number });
  const seen: number[] = [];
  for (const member of roster) {
    seen.push(member.number);
    roster.delete(member);
  }
  assert.deepEqual([seen.length, roster.size], [10, 0]);
});

test("those who have gone are garbage of the young, also once the roster itself is old", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options?: { type: "minor" }) => void;
  const roster = createRoster<Member & { load: number[] }>();
  const pass = (count: number): void => {
    const underWay = Array.from({ length: 64 }, (_, number) => ({ place: -1, number, load: [] as number[] }));
    for (let number = 0; number < count; number += 1) {
      const member = { place: -1, number, load: Array.from({ length: 100 }, () => number) };
      const gone = underWay[number % 64];
      if (gone) roster.delete(gone);
      roster.add(member);
      underWay[number % 64] = member;
    }
    for (const member of underWay) roster.delete(member);
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
