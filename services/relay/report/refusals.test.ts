import assert from "node:assert/strict";
import { test } from "node:test";
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ReportRefusalsRequestSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { createLog } from "#shared/process/log.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Failure } from "../failures.ts";
import { createRefusals } from "./refusals.ts";

type Sent = MessageInitShape<typeof ReportRefusalsRequestSchema>;

function gathering() {
  const sent: Sent[] = [];
  const state = { nowMs: 1_800_000_030_000, omitted: 0, isAway: false };
  const client = {
    reportRefusals: async (request: Sent) => {
      if (state.isAway) throw new ServiceError("unavailable", "away");
      sent.push(request);
      return {} as never;
    },
  };
  const log = createLog("test", "silent");
  const onOmitted = (refusals: number): void => void (state.omitted += refusals);
  const { note, report } = createRefusals(client, { onOmitted, log, nowMs: () => state.nowMs });
  const refuse = (keyId: string, failure: Failure, accountId = "acct"): string => {
    const rid = createRid();
    note({ accountId, keyId }, { rid, failure, status: 403, endpoint: "/v1/responses" });
    return rid;
  };
  return { sent, state, refuse, report };
}

const balance: Failure = { name: "balance", detail: "chat-large" };

test("refusals are counted by key, reason and minute, and sent once", async () => {
  const { sent, state, refuse, report } = gathering();
  for (let index = 0; index < 3; index += 1) refuse("key_1", balance);
  refuse("key_1", { name: "account_rate" });
  refuse("key_2", balance);
  refuse("key_2", { name: "key_invalid", reason: "key_address" });
  state.nowMs += 60_000;
  refuse("key_1", balance);
  await report();
  await report();
  assert.equal(sent.length, 1);
  const told = sent[0]?.counts?.map(({ keyId, reason, refusals, minute }) => [
    keyId,
    reason,
    refusals,
    timestampMs(minute as Timestamp) - 1_800_000_000_000,
  ]);
  assert.deepEqual(told, [
    ["key_1", "balance", 3n, 0],
    ["key_1", "account_rate", 1n, 0],
    ["key_1", "balance", 1n, 60_000],
    ["key_2", "balance", 1n, 0],
    ["key_2", "key_address", 1n, 0],
  ]);
});

test("a flood is counted in full, and its newest twenty calls are sent", async () => {
  const { sent, refuse, report } = gathering();
  const rids = Array.from({ length: 10_000 }, () => refuse("key_1", balance));
  await report();
  assert.deepEqual([sent[0]?.counts?.length, sent[0]?.counts?.[0]?.refusals], [1, 10_000n]);
  assert.deepEqual(
    sent[0]?.calls?.map(({ rid }) => rid),
    rids.slice(-20),
  );
});

test("an account with many keys leaves room for others, and all together have a limit", async () => {
  const { sent, state, refuse, report } = gathering();
  for (let index = 0; index < 30; index += 1) refuse(`key_${index}`, balance);
  refuse("key_other", balance, "acct_other");
  await report();
  assert.deepEqual([sent[0]?.counts?.length, state.omitted], [21, 10]);
  for (let index = 0; index < 300; index += 1) {
    for (let call = 0; call < 20; call += 1) refuse(`key_${index}`, balance, `acct_${index}`);
  }
  await report();
  assert.deepEqual([sent[1]?.counts?.length, sent[1]?.calls?.length], [200, 500]);
});

test("what auth-quota does not take is counted as omitted and not sent again", async () => {
  const { sent, state, refuse, report } = gathering();
  state.isAway = true;
  refuse("key_1", balance);
  refuse("key_1", balance);
  await report();
  state.isAway = false;
  await report();
  assert.deepEqual([sent, state.omitted], [[], 2]);
});

test("of a request nothing is kept but the model's name and our own words about it", async () => {
  const { sent, refuse, report } = gathering();
  const secret = "sk-0123456789abcdef";
  refuse("key_1", { name: "upstream_refused", detail: `your prompt "${secret}" is too long` });
  refuse("key_1", { name: "invalid_json", cause: new Error(secret) });
  refuse("key_1", { name: "model_unavailable", detail: secret });
  refuse("key_1", { name: "model_unavailable", detail: "tell me a story" });
  refuse("key_1", { name: "model_unavailable", detail: "vendor/chat-9:free" });
  refuse("key_1", { name: "field_required", detail: "messages" });
  await report();
  const kept = sent[0]?.calls?.map(({ model, detail }) => `${model}|${detail}`);
  assert.deepEqual(kept, ["|", "|", "|", "|", "vendor/chat-9:free|", "|messages"]);
});
