import assert from "node:assert/strict";
import { test } from "node:test";
import { cellLoads, commonLoads, gapsLoad, smallLoad } from "./loads.ts";
import { createWarmth } from "./warm-up.ts";

test("every process is warmed up alike: longest by the first load of a kind, again when it was started anew", () => {
  const warmth = createWarmth();
  const [large, gaps] = ["1 MB, 16 connections", gapsLoad].map((wanted) =>
    commonLoads.find(({ name }) => name === wanted),
  );
  const converted = cellLoads.find(({ client, upstream, kind }) => kind === "json" && client !== upstream);
  assert.ok(large && gaps && converted);
  const ofOne = (pid: number) => [smallLoad, smallLoad, large, gaps, converted].map((load) => warmth(load, { pid }));
  const first = ofOne(1);
  const [small = 0, again, other = 0, kind, path] = first;
  assert.ok(small > other && other > 0, String(first));
  assert.deepEqual([again, kind, path], [0, small, other]);
  assert.deepEqual(ofOne(2), first);
  assert.deepEqual(ofOne(1), [0, 0, 0, 0, 0]);
});
