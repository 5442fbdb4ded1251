import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { v7 } from "uuid";
import { RecordKind, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { startApp } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const minuteMs = 60_000;

test("charges of videos are listed in the order of their booking, ten minutes later, with what was refunded", async () => {
  const time = { nowMs: Date.now() - 60 * minuteMs };
  await using app = await startApp(server.postgres, { clock: { nowMs: () => time.nowMs } });
  const list = async (afterLineId: string, limit = 100) => {
    const { charges, untilLineId, hasMore } = await app.billing.listVideoCharges({ afterLineId, limit });
    const rids = charges.map(({ record }) => fromBinary(UsageRecordedSchema, record).rid);
    return { rids, refunded: charges.map(({ refundedNanos }) => refundedNanos), untilLineId, hasMore };
  };
  const video = { relaySession: "", sequence: 0n, endpoint: "/v1/videos" };
  const [first, second, third, old] = [createRid(), createRid(), createRid(), v7({ msecs: time.nowMs - 86_400_000 })];
  await app.book({ rid: createRid(), ...video });
  time.nowMs += 11 * minuteMs;
  const { untilLineId: begin, rids: none } = await list("");
  assert.deepEqual(none, [], "what was booked before is not looked at");
  await app.book({ rid: first, ...video });
  await app.book({}, { rid: createRid(), ...video, kind: RecordKind.PROVISIONAL }, { ...video, endpoint: "/v1/other" });
  time.nowMs += 1;
  // Of a call of the day before, which is on another partition.
  await app.book({ rid: old, ...video });
  await app.billing.refund({ accountId: "acct_test", rid: first, amountNanos: 100n, refundId: "r", reason: "r" });
  time.nowMs += 9 * minuteMs;
  assert.deepEqual((await list(begin)).rids, [], "it may be behind one that is not committed yet");
  time.nowMs += 2 * minuteMs;
  const found = await list(begin);
  assert.deepEqual([found.rids, found.refunded, found.hasMore], [[first, old], [100n, 0n], false]);
  await app.book({ rid: second, ...video }, { rid: third, ...video });
  time.nowMs += 11 * minuteMs;
  const page = await list(found.untilLineId, 1);
  const next = await list(page.untilLineId, 1);
  assert.deepEqual([page.hasMore, [...page.rids, ...next.rids].toSorted()], [true, [second, third].toSorted()]);
  const last = await list(next.untilLineId, 1);
  assert.deepEqual([last.rids, last.hasMore], [[], false]);
  time.nowMs -= 60 * minuteMs;
  assert.equal((await list(last.untilLineId)).untilLineId, last.untilLineId, "by a clock that is behind");
  await assert.rejects(list("no line"), { code: "invalid_argument" });
});
