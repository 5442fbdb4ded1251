import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { admit, authorize, callerOf } from "./admit.ts";
import { CallFailure, type Failure } from "../failures.ts";
import { estimateNanos } from "./meter.ts";
import { resultOf } from "./session-wire.ts";
import { envelopeOf, modelOf, scriptedQuota } from "../testing/fakes.ts";

const newCaller = () => callerOf("sk-secret-of-a-caller", "192.0.2.7");

async function failureOf(promise: Promise<unknown>): Promise<Failure> {
  const thrown: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.ok(thrown instanceof CallFailure, "it is refused");
  return thrown.failure;
}

test("the secret goes no further than its SHA-256", () => {
  const caller = newCaller();
  assert.deepEqual(Buffer.from(caller.keyHash), createHash("sha256").update("sk-secret-of-a-caller").digest());
  assert.equal(caller.address, "192.0.2.7");
});

// What auth-quota decided, and what the API spec has the caller told.
const verdicts: [keyof typeof Verdict, object | undefined][] = [
  ["OK", undefined],
  ["KEY_INVALID", { name: "key_invalid" }],
  ["KEY_LIMIT", { name: "key_limit", detail: "m" }],
  ["BALANCE", { name: "balance", detail: "m" }],
  ["MODEL", { name: "model_unavailable", detail: "m" }],
  ["ACCOUNT_RATE", { name: "account_rate", detail: "m" }],
  ["IP_RATE", { name: "ip_rate", retryAfterSeconds: 17 }],
  ["UNAVAILABLE", { name: "service_unavailable" }],
  ["NO_HOLD", { name: "service_unavailable" }],
  ["CONFLICT", { name: "service_unavailable" }],
  ["RECALLED", { name: "service_unavailable" }],
  ["UNSPECIFIED", { name: "service_unavailable" }],
];

test("every verdict has its row here", () => {
  assert.deepEqual(verdicts.map(([name]) => name).toSorted(), Object.keys(Verdict).toSorted());
});

for (const [name, expected] of verdicts) {
  const decision = expected === undefined ? "admits" : "no decision possible is 503, never 401 or 403, never open";
  test(`verdict ${name}: ${name === "OK" || /UNAV|HOLD|CONF|RECALLED|UNSPEC/.test(name) ? decision : "refuses in the words of the spec"}`, async () => {
    const quota = scriptedQuota(() => ({ verdict: Verdict[name], accountId: "acct_1", retryAfterSeconds: 17 }));
    const asked = { rid: createRid(), envelope: envelopeOf(), model: modelOf() };
    if (expected === undefined) {
      assert.equal((await admit({ settling: { quota } }, newCaller(), asked)).accountId, "acct_1");
      assert.equal((await authorize({ settling: { quota } }, newCaller())).accountId, "acct_1");
      return;
    }
    const { cause: _, ...told } = await failureOf(admit({ settling: { quota } }, newCaller(), asked));
    assert.deepEqual(told, expected);
    assert.equal((await failureOf(authorize({ settling: { quota } }, newCaller()))).name, told.name);
  });
}

test("a key that is limited to other addresses is refused as a wrong one; its owner and the operator hear why", async () => {
  const quota = scriptedQuota(() => ({ verdict: Verdict.KEY_INVALID, isAddressRefused: true }));
  const asked = { rid: createRid(), envelope: envelopeOf(), model: modelOf() };
  const why = { name: "key_invalid", reason: "key_address", cause: "the key is limited to other addresses" };
  assert.deepEqual(await failureOf(admit({ settling: { quota } }, newCaller(), asked)), why);
  assert.deepEqual(await failureOf(authorize({ settling: { quota } }, newCaller())), why);
});

test("of an IPv6 address its block is counted, and the whole of it is told beside, once for a request", async () => {
  const quota = scriptedQuota();
  const caller = callerOf("sk-secret-of-a-caller", "2001:db8::7");
  const asked = { rid: createRid(), envelope: envelopeOf(), model: modelOf() };
  await admit({ settling: { quota } }, caller, asked);
  await authorize({ settling: { quota } }, caller);
  await admit({ settling: { quota } }, caller, asked);
  const told = [...quota.of("reserve"), ...quota.of("authorize")].map(({ ip, address }) => [ip, address]);
  assert.deepEqual(told, [
    ["2001:db8:0:0::", "2001:db8::7"],
    ["", ""],
    ["2001:db8:0:0::", "2001:db8::7"],
  ]);
});

test("a reservation asks for the estimated price of this model, for this key from this address, under the id of the call", async () => {
  const quota = scriptedQuota();
  const rid = createRid();
  const envelope = envelopeOf({ max_tokens: 500 });
  const model = modelOf();
  await admit({ settling: { quota } }, newCaller(), { rid, envelope, model });
  const [asked] = quota.of("reserve");
  assert.ok(asked);
  assert.equal(asked.rid, rid);
  assert.deepEqual(Buffer.from(asked.keyHash), Buffer.from(newCaller().keyHash));
  assert.deepEqual([asked.ip, asked.model], ["192.0.2.7", "m"]);
  assert.equal(asked.estimateNanos, estimateNanos(envelope, model));
  assert.equal(quota.operations.length, 1, "one round trip");
});

test("a hold of which nothing is known, because no answer came, is released: this call will never use it", async () => {
  const rid = createRid();
  const asked = { rid, envelope: envelopeOf(), model: modelOf() };
  const silent = scriptedQuota(({ case: name }) => ({
    verdict: name === "reserve" ? Verdict.UNAVAILABLE : Verdict.OK,
  }));
  await failureOf(admit({ settling: { quota: silent } }, newCaller(), asked));
  assert.deepEqual(
    silent.of("release").map((release) => release.rid),
    [rid],
  );
  for (const verdict of [Verdict.BALANCE, Verdict.KEY_INVALID, Verdict.CONFLICT]) {
    const deciding = scriptedQuota(() => ({ verdict }));
    await failureOf(admit({ settling: { quota: deciding } }, newCaller(), asked));
    assert.deepEqual(deciding.of("release"), [], "a no left no hold");
  }
});

test("checking a key holds nothing", async () => {
  const quota = scriptedQuota(() => ({ models: ["m"] }));
  assert.deepEqual((await authorize({ settling: { quota } }, newCaller())).models, ["m"]);
  assert.deepEqual(
    quota.operations.map(({ case: name }) => name),
    ["authorize"],
  );
});

test("while auth-quota is away callers are told at once, and nothing is asked or released", async () => {
  const quota = { ...scriptedQuota(), isReachable: () => false };
  const asked = { rid: createRid(), envelope: envelopeOf(), model: modelOf() };
  assert.equal((await failureOf(admit({ settling: { quota } }, newCaller(), asked))).name, "service_unavailable");
  assert.equal((await failureOf(authorize({ settling: { quota } }, newCaller()))).name, "service_unavailable");
  assert.deepEqual(quota.operations, []);
});

test("a call that is refused while this machine's clock is wrong says so in the log", async () => {
  const quota = { ...scriptedQuota(() => ({ verdict: Verdict.UNAVAILABLE })), clockAheadMs: () => 3_600_000 };
  const asked = { rid: createRid(), envelope: envelopeOf(), model: modelOf() };
  const failure = await failureOf(admit({ settling: { quota } }, newCaller(), asked));
  assert.deepEqual(failure, { name: "service_unavailable", cause: "the clock is 3600 s ahead of Redis'" });
});

test("an estimate beyond what an account can hold is asked for as that, and refused as too much", async () => {
  const quota = scriptedQuota();
  const model = modelOf({ prices: { inputTokens: 10n ** 20n, outputTokens: 10n ** 20n } });
  await admit({ settling: { quota } }, newCaller(), { rid: createRid(), envelope: envelopeOf(), model });
  assert.equal(quota.of("reserve")[0]?.estimateNanos, 9_007_199_254_740_991n);
});

test("an address counts once for a request, also where its key is checked before it is admitted", async () => {
  const quota = scriptedQuota();
  const caller = newCaller();
  await authorize({ settling: { quota } }, caller);
  await authorize({ settling: { quota } }, caller);
  await admit({ settling: { quota } }, caller, { rid: createRid(), envelope: envelopeOf(), model: modelOf() });
  const counted = [...quota.of("authorize"), ...quota.of("reserve")].map(({ ip }) => ip);
  assert.deepEqual(counted, ["192.0.2.7", "", ""]);
});

test("a key with a lease is checked, and its calls admitted, while auth-quota is away", async () => {
  const quota = { ...scriptedQuota(), isReachable: () => false };
  const owner = { accountId: "acct_1", keyId: "key_1" };
  const hold = { ...owner, heldNanos: 7n, holdSecret: new Uint8Array(16), generation: "1" };
  const asked: string[] = [];
  const leases = {
    admit: ({ ip }: { ip: string }) => {
      asked.push(ip);
      return hold;
    },
    authorize: ({ ip }: { ip: string }) => {
      asked.push(ip);
      return { ...resultOf(Verdict.OK), ...owner };
    },
    noteAdmitted: () => undefined,
    sweep: () => undefined,
    close: () => undefined,
    size: () => 1,
  };
  const caller = newCaller();
  await authorize({ settling: { quota }, leases }, caller);
  const call = { rid: createRid(), envelope: envelopeOf(), model: modelOf() };
  assert.deepEqual(await admit({ settling: { quota }, leases }, caller, call), hold);
  assert.deepEqual(asked, ["192.0.2.7", ""], "the address counts once");
  const other = newCaller();
  await admit({ settling: { quota }, leases }, other, call);
  assert.deepEqual([other.accountId, other.owner], ["acct_1", owner]);
  assert.deepEqual(quota.operations, []);
});

test("a hold is of the generation in which it was asked for", async () => {
  const quota = scriptedQuota(() => {
    quota.setGeneration("2");
    return {};
  });
  const call = { rid: createRid(), envelope: envelopeOf(), model: modelOf() };
  assert.equal((await admit({ settling: { quota } }, newCaller(), call)).generation, "1");
});
