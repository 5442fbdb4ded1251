import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { createLog } from "#shared/process/log.ts";
import { query } from "#shared/testing/postgres.ts";
import { startAppWorld, type AppEnvironment } from "../testing/app-world.ts";
import { connectPostgres } from "../store/postgres.ts";
import { forgetRefusals } from "./refusals.ts";

let world: AppEnvironment;
before(async () => {
  world = await startAppWorld();
});
after(() => world[Symbol.asyncDispose]());

const nowMs = Date.now();
const minute = timestampFromMs(nowMs);
const countOf = (keyId: string, reason = "balance", refusals = 1n) => ({
  keyId,
  reason,
  status: 403,
  refusals,
  minute,
});
const callOf = (keyId: string, rid = createRid()) => ({
  rid,
  keyId,
  reason: "field_required",
  status: 400,
  endpoint: "/v1/chat/completions",
  model: "chat-large",
  detail: "messages",
});

test("accounts are told by how often and why their callers were refused, those of a few refusals left out", async () => {
  const { admin } = world.first;
  const [one, two] = [await world.createPayer(1n), await world.createPayer(1n)];
  const second = (await admin.createKey({ accountId: one.accountId, name: "second" })).key?.keyId ?? "";
  const older = timestampFromMs(nowMs - 7_200_000);
  await admin.reportRefusals({
    counts: [
      countOf(one.keyId, "key_address", 6n),
      countOf(second, "key_address", 6n),
      countOf(two.keyId, "balance", 9n),
      { ...countOf(two.keyId, "balance", 99n), minute: older },
    ],
  });
  const told = async (since?: typeof minute) =>
    (await admin.listMostRefused(since ? { since } : {})).accounts
      .filter(({ accountId }) => [one.accountId, two.accountId].includes(accountId))
      .map(({ accountId, reason, refusals }) => [accountId, reason, refusals]);
  const ofOne = [one.accountId, "key_address", 12n];
  assert.deepEqual(await told(timestampFromMs(nowMs - 3_600_000)), [ofOne]);
  assert.deepEqual(await told(), [[two.accountId, "balance", 108n], ofOne]);
});

test("reports of relays add up by key, reason and status, and only for the account of the key", async () => {
  const { admin } = world.first;
  const payer = await world.createPayer(1n);
  const other = await world.createPayer(1n);
  const { accountId, keyId } = payer;
  const older = timestampFromMs(nowMs - 7_200_000);
  await admin.reportRefusals({ counts: [countOf(keyId), countOf(keyId), countOf(other.keyId, "balance", 5n)] });
  await admin.reportRefusals({
    counts: [countOf(keyId, "balance", 40n), countOf(keyId, "account_rate"), { ...countOf(keyId), minute: older }],
  });
  await admin.reportRefusals({ counts: [countOf("key_that_is_none", "balance", 40n)] });
  const { counts } = await admin.listRefusals({ accountId });
  const told = counts.map(({ keyId: of, reason, status, refusals }) => [of, reason, status, refusals]);
  assert.deepEqual(told, [
    [keyId, "balance", 403, 43n],
    [keyId, "account_rate", 403, 1n],
  ]);
  const [first] = counts;
  assert.equal(first?.minute && timestampDate(first.minute).getTime(), Math.floor(nowMs / 60_000) * 60_000);
  const since = timestampFromMs(nowMs - 3_600_000);
  assert.equal((await admin.listRefusals({ accountId, since })).counts[0]?.refusals, 42n, "what is older is left out");
  assert.deepEqual((await admin.listRefusals({ accountId, keyId: other.keyId })).counts, [], "another account's key");
});

test("of each key the newest hundred calls are kept, however many there were", async () => {
  const { admin } = world.first;
  const { accountId, keyId } = await world.createPayer(1n);
  const { key } = await admin.createKey({ accountId, name: "quiet" });
  const quiet = callOf(key?.keyId ?? "");
  const calls = Array.from({ length: 250 }, () => callOf(keyId));
  await admin.reportRefusals({ calls: [quiet] });
  for (const from of [0, 100, 200]) await admin.reportRefusals({ calls: calls.slice(from, from + 100) });
  await admin.reportRefusals({ calls: calls.slice(240) });
  const ridsOf = async (of: string): Promise<string[]> =>
    (await admin.listRefusals({ accountId, keyId: of })).calls.map(({ rid }) => rid);
  const newest = calls.slice(150).map(({ rid }) => rid);
  assert.deepEqual(await ridsOf(keyId), newest.toReversed());
  assert.deepEqual(await ridsOf(quiet.keyId), [quiet.rid], "a flood of another key leaves them alone");
  const [call] = (await admin.listRefusals({ accountId, keyId: quiet.keyId })).calls;
  assert.deepEqual({ ...call }, { ...call, ...quiet });
  const { rows } = await query(world.ownerUrl, "select count(*)::int as kept from auth_quota.refused_call");
  assert.deepEqual(rows, [{ kept: 101 }]);
});

test("what was wrong with a key is told: stopped, expired, deleted, used up, or its account suspended", async () => {
  const { admin } = world.first;
  const states: Record<string, (payer: { accountId: string; keyId: string }) => Promise<unknown>> = {
    key_stopped: ({ keyId }) => admin.updateKey({ keyId, status: KeyStatus.STOPPED }),
    key_expired: ({ keyId }) => admin.updateKey({ keyId, expiresAt: timestampFromMs(nowMs - 1_000) }),
    key_deleted: ({ keyId }) => admin.deleteKey({ keyId }),
    key_used_up: async () => undefined,
    account_suspended: ({ accountId }) => admin.updateAccount({ accountId, status: AccountStatus.SUSPENDED }),
  };
  for (const [reason, bring] of Object.entries(states)) {
    const payer = await world.createPayer(1n);
    await bring(payer);
    await admin.reportRefusals({ counts: [countOf(payer.keyId, "key_invalid")] });
    await admin.reportRefusals({ calls: [{ ...callOf(payer.keyId), reason: "key_invalid" }] });
    const { counts, calls } = await admin.listRefusals({ accountId: payer.accountId });
    assert.deepEqual([counts[0]?.reason, calls[0]?.reason], [reason, reason]);
  }
});

test("counts are forgotten after a week", async () => {
  const { accountId, keyId } = await world.createPayer(1n);
  const { admin } = world.first;
  await admin.reportRefusals({
    counts: [countOf(keyId), { ...countOf(keyId), minute: timestampFromMs(nowMs - 8 * 86_400_000) }],
  });
  const url = new URL(world.ownerUrl);
  Object.assign(url, { username: "auth_quota_service", password: "secret" });
  await using database = connectPostgres(url.href, createLog("auth-quota", "silent"));
  await forgetRefusals(database);
  assert.equal((await admin.listRefusals({ accountId })).counts[0]?.refusals, 1n);
});

test("what is no report is refused as a whole", async () => {
  const { admin } = world.first;
  const { accountId, keyId } = await world.createPayer(1n);
  const wrong = [
    { counts: [countOf(keyId), countOf(keyId, "<script>")] },
    { counts: [countOf(keyId, "balance", -1n)] },
    { counts: [{ ...countOf(keyId), status: 200 }] },
    { calls: [callOf(keyId, "not-a-rid")] },
    { calls: [{ ...callOf(keyId), detail: "x".repeat(201) }] },
    { calls: Array.from({ length: 2_001 }, () => callOf(keyId)) },
  ];
  for (const report of wrong) await assert.rejects(admin.reportRefusals(report), { code: "invalid_argument" });
  assert.deepEqual((await admin.listRefusals({ accountId })).counts, []);
});
