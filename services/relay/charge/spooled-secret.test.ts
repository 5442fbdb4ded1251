import assert from "node:assert/strict";
import { test } from "node:test";
import { holdSecret, isProven } from "#shared/money/hold-proof.ts";
import { createRid } from "#shared/money/rid.ts";
import { checkpoint } from "../stream/guard.ts";
import { liveCallOf, memorySpool, scriptedQuota, settlingOf } from "../testing/fakes.ts";
import { replaySpool } from "./replay-spool.ts";

test("whoever closes a call of a dead relay proves it by the secret that the spool has, which nobody else is told", async () => {
  const owner = { rid: createRid(), accountId: "acct_1", keyId: "key_1" };
  const key = Buffer.alloc(32, 5);
  const secret = holdSecret(key, owner);
  const call = liveCallOf({ rid: owner.rid, holdSecret: secret });
  call.tally.hasContent = true;
  call.tally.usage = { inputTokens: 100n, outputTokens: 50n };
  const written: Uint8Array[] = [];
  const spool = memorySpool({ checkpoint: (_rid, record) => void written.push(record) });
  checkpoint(settlingOf({ quota: scriptedQuota(), spool }), call, false);
  assert.ok(Buffer.from(written[0] ?? []).includes(secret));
  const adopt = () => new Map([["dead", { records: [], checkpoints: written }]]);
  const quota = scriptedQuota();
  const published: Uint8Array[] = [];
  await replaySpool(
    settlingOf({ quota, spool: memorySpool({ adopt }), publish: (bytes) => void published.push(bytes) }),
  );
  const told = [...quota.of("checkpoint"), ...quota.of("settle")].map(({ record }) => record ?? new Uint8Array());
  assert.equal(told.length, 2);
  for (const record of [...told, ...published]) {
    assert.ok(isProven([key], owner, record));
    assert.ok(!Buffer.from(record).includes(secret));
  }
});
