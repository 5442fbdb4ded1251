import assert from "node:assert/strict";
import { test } from "node:test";
import { evictionOf } from "./eviction.ts";

const info = (policy: string, maxMemory: number, evicted: number): string =>
  ["# Memory", `maxmemory:${maxMemory}`, `maxmemory_policy:${policy}`, "# Stats", `evicted_keys:${evicted}`].join(
    "\r\n",
  );

for (const [policy, maxMemory, evicted, found] of [
  ["noeviction", 1_000, 0, "none"],
  ["noeviction", 1_000, 5, "none"],
  ["volatile-lru", 1_000, 5, "none"],
  ["allkeys-lru", 0, 0, "none"],
  ["allkeys-lru", 1_000, 0, "evicts"],
  ["allkeys-random", 1_000, 5, "evicted"],
] as const) {
  test(`${policy} with maxmemory ${maxMemory} and ${evicted} evicted keys is ${found}`, () => {
    assert.equal(evictionOf(info(policy, maxMemory, evicted)), found);
  });
}

test("a server that tells nothing of its memory evicts nothing", () => {
  assert.equal(evictionOf(""), "none");
});
