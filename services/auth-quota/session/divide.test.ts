import assert from "node:assert/strict";
import { test } from "node:test";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { accountHash } from "#shared/money/account-hash.ts";
import { createShards, type ConnectedStore } from "../store/shards.ts";
import { divide, mergeParts } from "./divide.ts";
import type { Task } from "./task.ts";

const rids = [1, 2, 3].map((digit) => `019b76da-b48a-7000-8000-00000000000${digit}`);
const account = "acct_1";

/** Calls of one account that are looked up at once. */
function lookup(): Task {
  const hashes = Buffer.alloc(4 * rids.length);
  for (const at of rids.keys()) hashes.writeUInt32BE(accountHash(account), 4 * at);
  const request = { name: "lookupMany", accountId: "", accountHashes: hashes };
  const prepared = { request, operation: ["lookup-many", rids.join("")] };
  return { prepared, caller: {}, shard: undefined, result: undefined } as unknown as Task;
}

const shardsOf = (count: number) =>
  createShards(Array.from({ length: count }, () => ({ status: () => "ready" }) as unknown as ConnectedStore));

for (const [what, before, after] of [
  ["stays", undefined, undefined],
  ["is found to be where its hash says", undefined, 0],
  ["moves away meanwhile", undefined, 1],
  ["comes back meanwhile", 1, undefined],
] as const) {
  test(`calls that are looked up at once each get their own state: their account ${what}`, () => {
    const shards = shardsOf(3);
    const home = shards.homeOf(account).index;
    const place = (by: number | undefined): void =>
      shards.place(new Map(by === undefined ? [] : [[account, (home + by) % 3]]));
    place(before);
    const task = lookup();
    const parts = divide(shards, task) ?? [];
    assert.equal(new Set(parts.map(({ shard }) => shard)).size, parts.length, "no shard is asked twice");
    const { SETTLED, POSTED, UNSPECIFIED } = CallState;
    for (const part of parts) {
      const isHome = part.shard?.index === home;
      const states = Buffer.from(isHome ? [SETTLED, SETTLED, POSTED] : [UNSPECIFIED, UNSPECIFIED, UNSPECIFIED]);
      part.result = { verdict: Verdict.OK, states };
    }
    place(after);
    const { states } = mergeParts(task.prepared, parts);
    assert.deepEqual([...(states ?? [])], [SETTLED, SETTLED, POSTED]);
  });
}
