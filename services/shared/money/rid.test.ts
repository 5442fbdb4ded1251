import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createRid, ridTimeMs } from "./rid.ts";

test("a rid tells the millisecond in which it was made", () => {
  const before = Date.now();
  const time = ridTimeMs(createRid());
  assert.ok(time !== undefined && time >= before && time <= Date.now());
});

test("rids made one after another are all different and sort in the order of their making", () => {
  const rids = Array.from({ length: 10_000 }, createRid);
  assert.equal(new Set(rids).size, rids.length);
  assert.deepEqual(rids.toSorted(), rids);
});

test("rids stay in order while the clock goes back a little, and follow it when it was set back", (context) => {
  const nowMs = Date.now() + 3_600_000;
  context.mock.timers.enable({ apis: ["Date"], now: nowMs });
  const ahead = createRid();
  context.mock.timers.setTime(nowMs - 1_000);
  const slewed = createRid();
  assert.ok(slewed > ahead, "a small step back does not disturb the order");
  assert.equal(ridTimeMs(slewed), nowMs);
  const rightMs = nowMs - 3_600_000;
  context.mock.timers.setTime(rightMs);
  const rids = Array.from({ length: 10_000 }, createRid);
  assert.equal(ridTimeMs(rids[0] ?? ""), rightMs);
  assert.equal(new Set(rids).size, rids.length);
  assert.deepEqual(rids.toSorted(), rids);
});

test("any 48-bit time is read back exactly", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (time) => {
      const hex = time.toString(16).padStart(12, "0");
      assert.equal(ridTimeMs(`${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`), time);
    }),
  );
});

test("what is not a lower-case UUIDv7 has no time", () => {
  const wrong = [
    "",
    createRid().toUpperCase(),
    ` ${createRid()}`,
    `${createRid()}\n`,
    createRid().replaceAll("-", ""),
    "0190a1b2-c3d4-4000-8000-000000000000",
    "0190a1b2-c3d4-7000-c000-000000000000",
  ];
  for (const text of wrong) assert.equal(ridTimeMs(text), undefined, JSON.stringify(text));
});
