import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { PostRequestSchema, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { postHandler } from "./post.ts";
import { createShards, type Shard } from "../store/shards.ts";
import type { HotOperation } from "../store/hot.ts";

const owner = { accountId: "acct_1", keyId: "key_1" };
const accounts = [{ accountId: "acct_1", balanceNanos: 10n, version: 2n }];
const keys = [{ keyId: "key_1", accountId: "acct_1", spentNanos: 5n, version: 2n }];

/** Takes over a Post of so many calls; the hot store finds the one at `strange` to contradict what it knows. */
async function post(count: number, strange: number) {
  const rids = Array.from({ length: count }, createRid);
  const runs: string[][] = [];
  const reported: string[] = [];
  const apply = async (_session: string, operations: readonly HotOperation[]) => {
    runs.push(operations.map(([name]) => name));
    const codeOf = (rid: unknown): Verdict => (rid === rids[strange] ? Verdict.CONFLICT : Verdict.OK);
    return operations.map(([, rid]) => ({ code: codeOf(rid), number: 0, text: "" }));
  };
  const deps = {
    shards: createShards([{ apply, generation: () => "1", status: () => "ready" } as unknown as Shard]),
    moves: { placeOf: () => undefined },
    metrics: { conflict: () => undefined },
    log: { error: ({ rid }: { rid: string }) => reported.push(rid) },
  };
  const handler = postHandler(deps as unknown as Parameters<typeof postHandler>[0]);
  const calls = rids.map((rid) => ({ rid, ...owner, bookedNanos: 5n, isFinal: true }));
  await handler(create(PostRequestSchema, { accounts, keys, calls }));
  return { runs, reported, expected: [rids[strange]] };
}

test("a Post is one run, its balances first, and a call that contradicts is reported by its own id", async () => {
  const { runs, reported, expected } = await post(3, 1);
  assert.deepEqual(runs, [["balance", "spending", "post", "post", "post"]]);
  assert.deepEqual(reported, expected);
});

test("a large Post is taken in deps, in which calls are reported by their own ids too", async () => {
  const { runs, reported, expected } = await post(999, 998);
  assert.deepEqual(
    runs.map((names) => names.length),
    [500, 500, 1],
  );
  assert.deepEqual(reported, expected);
});
