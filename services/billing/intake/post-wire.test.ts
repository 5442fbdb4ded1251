import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { PostRequestSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { encodePost } from "./post-wire.ts";
import type { CallUpdate } from "./push-balances.ts";

const accounts = [{ accountId: "acct_1", balanceNanos: -5n, version: 7n }];
const keys = [{ keyId: "key_1", accountId: "acct_1", spentNanos: 12n, version: 7n }];

const callOf = (given: Partial<CallUpdate>): CallUpdate => ({
  rid: createRid(),
  accountId: "acct_1",
  keyId: "key_1",
  bookedNanos: 400n,
  isFinal: true,
  isLeased: false,
  ...given,
});

const bySchema = (calls: CallUpdate[]): Buffer =>
  Buffer.from(toBinary(PostRequestSchema, create(PostRequestSchema, { accounts, keys, calls })));

test("a post has the bytes that its schema gives it", () => {
  const amounts = [
    0n,
    1n,
    127n,
    128n,
    2n ** 31n,
    2n ** 32n + 1n,
    2n ** 49n,
    2n ** 53n - 1n,
    2n ** 53n,
    2n ** 63n - 1n,
    -1n,
  ];
  const ids = ["", "a", "ünï", "x".repeat(30), "y".repeat(64), "z".repeat(200)];
  const variants = [
    ...amounts.flatMap((bookedNanos) => [true, false].map((isFinal) => callOf({ bookedNanos, isFinal }))),
    callOf({ isLeased: true }),
    ...ids.flatMap((id) => [callOf({ accountId: id }), callOf({ keyId: id }), callOf({ rid: id })]),
    ...Array.from({ length: 80 }, (_, length) => callOf({ keyId: "k".repeat(length), bookedNanos: 2n ** 53n - 1n })),
  ];
  for (const call of variants) assert.deepEqual(encodePost({ accounts, keys, calls: [call] }), bySchema([call]));
  const many = amounts.slice(0, 8).map((bookedNanos) => callOf({ bookedNanos }));
  assert.deepEqual(encodePost({ accounts, keys, calls: many }), bySchema(many));
  assert.deepEqual(encodePost({ accounts, keys, calls: variants }), bySchema(variants));
  assert.deepEqual(encodePost({ accounts: [], keys: [], calls: [] }), Buffer.alloc(0));
});
