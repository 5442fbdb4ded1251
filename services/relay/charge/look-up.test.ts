import assert from "node:assert/strict";
import { test } from "node:test";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc } from "#shared/grpc/grpc.ts";
import { createRid } from "#shared/money/rid.ts";
import { until } from "#shared/testing/until.ts";
import { lookUpCalls } from "./look-up.ts";
import { openQuotaSession } from "./quota-session.ts";
import { listeningLog, scriptedQuota } from "../testing/fakes.ts";
import { echoOf, startQuotaServer } from "../testing/quota-server.ts";

const rids = (count: number): string[] => Array.from({ length: count }, createRid);
const callsOf = (all: readonly string[]) => all.map((rid) => ({ rid }));

test("many calls are asked about at once, 1,024 in an operation, and each gets its own state", async () => {
  const all = rids(1_030);
  const stateOf = (index: number): CallState => (index % 3 === 0 ? CallState.POSTED : CallState.SETTLED);
  const states = new Map(all.map((rid, index) => [rid.replaceAll("-", ""), stateOf(index)]));
  const quota = scriptedQuota(({ case: name, value }) => {
    assert.equal(name, "lookupMany");
    const packed = Buffer.from(value.rids).toString("hex").match(/.{32}/g) ?? [];
    return { states: Uint8Array.from(packed.map((rid) => states.get(rid) ?? 0)) };
  });
  quota.setHasLookupMany();
  assert.deepEqual(
    await lookUpCalls(quota, callsOf(all)),
    all.map((_, index) => stateOf(index)),
  );
  assert.deepEqual(
    quota.of("lookupMany").map((value) => value.rids.length),
    [1_024 * 16, 6 * 16],
  );
  assert.deepEqual(await lookUpCalls(quota, []), []);
});

test("accounts are named by their hashes in the order of the calls; those without are asked about apart", async () => {
  const [first = "", second = "", other = ""] = rids(3);
  const quota = scriptedQuota(({ value }) => ({
    states: Uint8Array.from(value && "accountHashes" in value && value.accountHashes.length > 0 ? [5, 255] : [4]),
  }));
  quota.setHasLookupMany();
  const calls = [{ rid: first, accountHash: 1 }, { rid: other }, { rid: second, accountHash: 0xfe_00_00_02 }];
  const states = await lookUpCalls(quota, calls);
  assert.deepEqual(states, [CallState.POSTED, CallState.SETTLED, undefined], "255: its shard could not be asked");
  const asked = quota.of("lookupMany").map(({ accountHashes }) => Buffer.from(accountHashes).toString("hex"));
  assert.deepEqual(asked, ["00000001fe000002", ""]);
});

test("a server that does not say it knows that is asked about each", async () => {
  const all = rids(3);
  const quota = scriptedQuota(({ value }) => ({
    verdict: value && "rid" in value && value.rid === all[1] ? Verdict.UNAVAILABLE : Verdict.OK,
    state: CallState.POSTED,
  }));
  assert.deepEqual(await lookUpCalls(quota, callsOf(all)), [CallState.POSTED, undefined, CallState.POSTED]);
  assert.deepEqual(
    quota.of("lookup").map(({ rid }) => rid),
    all,
  );
});

test("nothing is taken from an answer that is no yes, or not as long as the question", async () => {
  for (const answer of [
    { verdict: Verdict.UNAVAILABLE, states: Uint8Array.of(5, 5) },
    { verdict: Verdict.CONFLICT },
    { states: Uint8Array.of(5) },
    { states: Uint8Array.of(5, 5, 5) },
    {},
  ]) {
    const quota = scriptedQuota(() => answer);
    quota.setHasLookupMany();
    assert.deepEqual(await lookUpCalls(quota, callsOf(rids(2))), [undefined, undefined], JSON.stringify(answer));
  }
});

test("an id that auth-quota would refuse does not keep the others from being asked about", async () => {
  const [one] = rids(1);
  const quota = scriptedQuota(({ value }) => ({
    verdict: value && "rid" in value && value.rid === one ? Verdict.OK : Verdict.CONFLICT,
    state: CallState.POSTED,
  }));
  quota.setHasLookupMany();
  assert.deepEqual(await lookUpCalls(quota, callsOf(["no id", one as string])), [undefined, CallState.POSTED]);
});

test("LookupMany goes to no server but one that says it knows it, also when the stream breaks", async () => {
  let isKnown = true;
  await using server = await startQuotaServer((request, stream) => {
    const isMany = request.operations.some(({ operation }) => operation.case === "lookupMany");
    const results = request.operations.map((operation) => ({ ...echoOf(operation), state: CallState.SETTLED }));
    if (!isMany) stream.answer(request.batch, results, { hasLookupMany: isKnown });
    return undefined;
  });
  using channel = connectGrpc(`127.0.0.1:${server.port}`);
  await using session = openQuotaSession(channel, "session-1", listeningLog().log);
  assert.equal(session.hasLookupMany(), false, "nothing was told");
  await until("the session is connected", () => session.isConnected());
  assert.equal(session.hasLookupMany(), true);
  const [one = ""] = rids(1);
  const sent = lookUpCalls(session, callsOf([one]));
  await until("it is with the server", () => server.batches.length === 1);
  const queued = lookUpCalls(session, callsOf([one]));
  // What this server left unanswered must not be asked of the next.
  isKnown = false;
  server.streams[0]?.break();
  assert.deepEqual(await Promise.all([sent, queued]), [[undefined], [undefined]]);
  await until("the next stream is proven", () => session.isConnected() && server.streams.length === 2);
  assert.equal(session.hasLookupMany(), false);
  assert.deepEqual(await lookUpCalls(session, callsOf([one])), [CallState.SETTLED]);
  const kinds = server.batches.flatMap(({ operations }) => operations.map(({ operation }) => operation.case));
  assert.equal(kinds.at(-1), "lookup");
  assert.ok(kinds.slice(0, -1).every((kind) => kind === "lookupMany") && kinds.length <= 3, kinds.join());
});
