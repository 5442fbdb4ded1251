import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { v7 } from "uuid";
import { CallState, Verdict, type Result } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc } from "#shared/grpc/grpc.ts";
import { holdSecret, readProofKeys } from "#shared/money/hold-proof.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { until } from "#shared/testing/until.ts";
import { hashOf, startAppWorld, type AppEnvironment, type Payer } from "./testing/app-world.ts";
import { openRelayLine, type RelayLine } from "./testing/relay-line.ts";

let world: AppEnvironment;
before(async () => {
  world = await startAppWorld();
});
after(() => world[Symbol.asyncDispose]());
afterEach(() => {
  world.billing.isDown = false;
  world.billing.beforeAnswer = async () => undefined;
});

const record = Buffer.from("a usage record");

const reserveOf = (payer: { keyHash: Uint8Array }, rid: string, estimateNanos: bigint, ip = "") =>
  ({ case: "reserve", value: { rid, keyHash: payer.keyHash, ip, model: "m", estimateNanos } }) as const;
const settleOf = ({ accountId, keyId }: Payer, rid: string, costNanos: bigint) =>
  ({ case: "settle", value: { rid, accountId, keyId, costNanos, record } }) as const;
const authorizeOf = ({ keyHash }: { keyHash: Uint8Array }) => ({ case: "authorize", value: { keyHash } }) as const;

const verdictsOf = (results: Result[]): Verdict[] => results.map(({ verdict }) => verdict);

async function verdictOf(line: RelayLine, operation: Parameters<RelayLine["send"]>[0][number]): Promise<Verdict> {
  return verdictsOf(await line.send([operation]))[0] ?? Verdict.UNSPECIFIED;
}

test("a first call of a new key is decided with settings from PostgreSQL and money from billing", async () => {
  const payer = await world.createPayer(1_000n, { limitNanos: 900n, models: ["m", "n"] });
  using line = world.first.openLine("relay_cold");
  const rid = v7();
  const [reserved, authorized, refused] = await line.send([
    reserveOf(payer, rid, 600n),
    authorizeOf(payer),
    reserveOf(payer, v7(), 301n),
  ]);
  assert.equal(reserved?.verdict, Verdict.OK);
  assert.deepEqual([reserved?.accountId, reserved?.keyId], [payer.accountId, payer.keyId]);
  assert.equal(reserved?.heldNanos, 600n);
  const [proofKey] = readProofKeys(holdProofKeys);
  const secret = holdSecret(proofKey, { rid, accountId: payer.accountId, keyId: payer.keyId });
  assert.deepEqual([Buffer.from(reserved?.holdSecret ?? []), refused?.holdSecret.length], [secret, 0]);
  assert.deepEqual(authorized?.models, ["m", "n"]);
  assert.equal(refused?.verdict, Verdict.KEY_LIMIT);
  const { openHolds, heldNanos, availableNanos } = await world.first.admin.getHolds({ accountId: payer.accountId });
  assert.deepEqual([openHolds, heldNanos, availableNanos], [1n, 600n, 400n]);
});

test("a key that no one made is invalid, and so is one whose account is suspended", async () => {
  using line = world.first.openLine("relay_unknown");
  assert.equal(await verdictOf(line, authorizeOf({ keyHash: hashOf("sk-never-made") })), Verdict.KEY_INVALID);
  const payer = await world.createPayer(1_000n);
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.OK);
  await world.first.admin.updateAccount({ accountId: payer.accountId, status: 2 });
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.KEY_INVALID);
});

test("a key stopped at one replica is stopped at the others by the time the administrator has an answer", async () => {
  await using second = await world.startReplica();
  const payer = await world.createPayer(1_000n);
  using line = second.openLine("relay_second");
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.OK);
  await world.first.admin.updateKey({ keyId: payer.keyId, status: 2 });
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.KEY_INVALID);
  await world.first.admin.updateKey({ keyId: payer.keyId, status: 1 });
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.OK);
  await world.first.admin.deleteKey({ keyId: payer.keyId });
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.KEY_INVALID);
});

test("a key stopped while Redis was down is stopped once Redis is back", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_push");
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.OK);
  await world.stores.redis.kill();
  await world.first.admin.updateKey({ keyId: payer.keyId, status: 2 });
  assert.equal(await verdictOf(line, authorizeOf(payer)), Verdict.UNAVAILABLE);
  await world.stores.redis.restart();
  await until("the stop is in force", async () => (await verdictOf(line, authorizeOf(payer))) === Verdict.KEY_INVALID);
});

test("no decision is possible without billing for an account not in Redis: 503, never 401 or 403", async () => {
  const cold = await world.createPayer(1_000n);
  const warm = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_billing");
  assert.equal(await verdictOf(line, reserveOf(warm, v7(), 1n)), Verdict.OK);
  world.billing.isDown = true;
  const answers = verdictsOf(await line.send([reserveOf(cold, v7(), 1n), reserveOf(warm, v7(), 1n)]));
  assert.deepEqual(answers, [Verdict.UNAVAILABLE, Verdict.OK]);
  world.billing.isDown = false;
  await until("it works again", async () => (await verdictOf(line, reserveOf(cold, v7(), 1n))) === Verdict.OK);
});

test("without PostgreSQL known keys go on and unknown ones are told to ask again", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_postgres");
  assert.equal(await verdictOf(line, reserveOf(payer, v7(), 1n)), Verdict.OK);
  await world.stores.postgres.kill();
  const stranger = { keyHash: hashOf("sk-not-seen-before") };
  const answers = verdictsOf(await line.send([authorizeOf(stranger), reserveOf(payer, v7(), 1n)]));
  await assert.rejects(world.first.admin.createAccount({ name: "late" }), { code: "unavailable" });
  await world.stores.postgres.restart();
  assert.deepEqual(answers, [Verdict.UNAVAILABLE, Verdict.OK]);
  await until("keys are looked up again", async () => {
    return (await verdictOf(line, authorizeOf(stranger))) === Verdict.KEY_INVALID;
  });
});

test("without Redis everything is answered as unavailable, and nothing is lost when it comes back", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_redis");
  const [held, settled] = [v7(), v7()];
  await line.send([reserveOf(payer, held, 100n), reserveOf(payer, settled, 100n), settleOf(payer, settled, 70n)]);
  await world.stores.redis.kill();
  const operations = [reserveOf(payer, v7(), 1n), settleOf(payer, held, 5n), authorizeOf(payer)] as const;
  assert.deepEqual(new Set(verdictsOf(await line.send([...operations]))), new Set([Verdict.UNAVAILABLE]));
  await assert.rejects(world.first.admin.getHolds({}), { code: "unavailable" });
  const readyz = await fetch(`http://127.0.0.1:${world.first.app.opsPort}/readyz`);
  assert.equal(readyz.status, 503);
  assert.match(await readyz.text(), /redis is/);
  await world.stores.redis.restart();
  await until("redis is back", async () => (await verdictOf(line, authorizeOf(payer))) === Verdict.OK);
  const { heldNanos, unpostedNanos } = await world.first.admin.getHolds({ accountId: payer.accountId });
  assert.deepEqual([heldNanos, unpostedNanos], [100n, 70n]);
});

test("1: a Post that arrives while funds are being loaded is not undone by the older balance", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_race");
  const rid = v7();
  world.billing.beforeAnswer = async () => {
    world.billing.beforeAnswer = async () => undefined;
    await world.first.admin.post({
      accounts: [{ accountId: payer.accountId, balanceNanos: 10n, version: 2n }],
      keys: [{ keyId: payer.keyId, accountId: payer.accountId, spentNanos: 990n, version: 2n }],
      calls: [{ rid: v7(), bookedNanos: 990n, accountId: payer.accountId, keyId: payer.keyId, isFinal: true }],
    });
  };
  assert.equal(await verdictOf(line, reserveOf(payer, rid, 11n)), Verdict.BALANCE);
  assert.equal(await verdictOf(line, reserveOf(payer, rid, 10n)), Verdict.OK);
});

test("a Post without the sums of its calls is completed by asking billing: nothing is available twice", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_untold");
  const rid = v7();
  await line.send([reserveOf(payer, rid, 500n), settleOf(payer, rid, 400n)]);
  world.billing.balances.set(payer.accountId, { nanos: 600n, version: 2n });
  const { accountId, keyId } = payer;
  await world.first.admin.post({ calls: [{ rid, bookedNanos: 400n, accountId, keyId, isFinal: true }] });
  const { unpostedCalls, availableNanos } = await world.first.admin.getHolds({ accountId });
  assert.deepEqual([unpostedCalls, availableNanos], [0n, 600n]);
  world.billing.isDown = true;
  const again = { calls: [{ rid: v7(), bookedNanos: 1n, accountId, keyId, isFinal: true }] };
  await assert.rejects(world.first.admin.post(again), { code: "unavailable" });
});

test("a Post names what it does not accept", async () => {
  const { post } = world.first.admin;
  const call = { rid: v7(), bookedNanos: 1n, accountId: "a", keyId: "k", isFinal: true };
  await assert.rejects(post({ calls: [{ ...call, rid: "no" }] }), { code: "invalid_argument", message: /calls.rid/ });
  await assert.rejects(post({ calls: [{ ...call, keyId: "" }] }), { message: /calls.key_id/ });
  await assert.rejects(post({ accounts: [{ accountId: "a b", version: 1n }] }), { message: /accounts.account_id/ });
  await assert.rejects(post({ keys: [{ keyId: "k", version: -1n }] }), { message: /keys.version/ });
});

test("ListUnposted gives the records of charges that are old enough, and GetHolds counts them", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_outbox");
  const rid = v7();
  await line.send([reserveOf(payer, rid, 500n), settleOf(payer, rid, 400n)]);
  const { records } = await world.first.admin.listUnposted({ limit: 1_000 });
  assert.ok(records.some((one) => Buffer.from(one).equals(record)));
  assert.deepEqual((await world.first.admin.listUnposted({ minAgeMs: 600_000n })).records, []);
  const all = await world.first.admin.getHolds({});
  assert.ok(all.unpostedCalls >= 1n);
  await assert.rejects(world.first.admin.listUnposted({ limit: 1_001 }), { code: "invalid_argument" });
  await assert.rejects(world.first.admin.listUnposted({ minAgeMs: -1n }), { code: "invalid_argument" });
  await assert.rejects(world.first.admin.getHolds({ accountId: "acct_never" }), { code: "not_found" });
});

test("64 relays at once: every call is granted once, charged once, and the sums are exact", async () => {
  const payer = await world.createPayer(64n * 20n * 100n);
  const lines = Array.from({ length: 64 }, (_, index) => world.first.openLine(`relay_many_${index}`));
  const work = lines.map(async (line, index) => {
    const rids = Array.from({ length: 20 }, () => v7());
    const batches = await Promise.all([
      line.send(rids.slice(0, 10).map((rid) => reserveOf(payer, rid, 100n))),
      line.send(rids.slice(10).map((rid) => reserveOf(payer, rid, 100n))),
    ]);
    assert.deepEqual(new Set(verdictsOf(batches.flat())), new Set([Verdict.OK]));
    const settled = rids.slice(0, 15).map((rid) => settleOf(payer, rid, BigInt(index)));
    assert.deepEqual(new Set(verdictsOf(await line.send(settled))), new Set([Verdict.OK]));
  });
  await Promise.all(work);
  const holds = await world.first.admin.getHolds({ accountId: payer.accountId });
  const charged = 15n * BigInt((63 * 64) / 2);
  assert.equal(holds.openHolds, 64n * 5n);
  assert.equal(holds.unpostedCalls, 64n * 15n);
  assert.equal(holds.unpostedNanos, charged);
  assert.equal(holds.availableNanos, 64n * 20n * 100n - 64n * 5n * 100n - charged);
  using over = world.first.openLine("relay_over");
  assert.equal(await verdictOf(over, reserveOf(payer, v7(), holds.availableNanos + 1n)), Verdict.BALANCE);
  for (const line of lines) line[Symbol.dispose]();
});

test("a batch sent again on a new stream is answered as the first time and changes nothing", async () => {
  const payer = await world.createPayer(1_000n);
  const [running, ended] = [v7(), v7()];
  const batch = [
    reserveOf(payer, running, 100n),
    reserveOf(payer, ended, 200n),
    { case: "extend", value: { rid: running, totalNanos: 150n } } as const,
    { case: "checkpoint", value: { rid: running, costNanos: 20n, record } } as const,
    settleOf(payer, ended, 120n),
    { case: "lookup", value: { rid: ended } } as const,
  ];
  const send = async (): Promise<Result[]> => {
    using line = world.first.openLine("relay_again");
    return await line.send([...batch]);
  };
  const first = await send();
  assert.deepEqual(new Set(verdictsOf(first)), new Set([Verdict.OK]));
  const again = await send();
  assert.deepEqual(verdictsOf(again), verdictsOf(first));
  assert.equal(again[5]?.state, CallState.SETTLED);
  const holds = await world.first.admin.getHolds({ accountId: payer.accountId });
  assert.deepEqual([holds.heldNanos, holds.unpostedNanos, holds.availableNanos], [150n, 120n, 730n]);
});

test("results keep the order of their operations, also when some of them wait for data", async () => {
  const [cold, warm] = [await world.createPayer(1_000n), await world.createPayer(1_000n)];
  using line = world.first.openLine("relay_order");
  await line.send([authorizeOf(warm)]);
  const results = await line.send([reserveOf(cold, v7(), 1n), authorizeOf(warm), reserveOf(cold, v7(), 2_000n)]);
  assert.deepEqual(
    results.map(({ verdict, keyId }) => [verdict, keyId]),
    [
      [Verdict.OK, cold.keyId],
      [Verdict.OK, warm.keyId],
      [Verdict.BALANCE, cold.keyId],
    ],
  );
});

test("a settle keeps its place behind its reserve when that one waits for data", async () => {
  const cold = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_behind");
  const rid = v7();
  const results = await line.send([reserveOf(cold, rid, 100n), settleOf(cold, rid, 60n)]);
  assert.deepEqual(verdictsOf(results), [Verdict.OK, Verdict.OK]);
});

test("a slow load holds up its own batch only", async () => {
  const [cold, warm] = [await world.createPayer(1_000n), await world.createPayer(1_000n)];
  using line = world.first.openLine("relay_pipelined");
  await line.send([reserveOf(warm, v7(), 1n)]);
  const gate = Promise.withResolvers<void>();
  world.billing.beforeAnswer = () => gate.promise;
  const slow = line.send([reserveOf(cold, v7(), 1n)]);
  assert.equal(await verdictOf(line, reserveOf(warm, v7(), 1n)), Verdict.OK);
  gate.resolve();
  assert.deepEqual(verdictsOf(await slow), [Verdict.OK]);
});

test("EndSession of another relay ends its holds, however many", async () => {
  const payer = await world.createPayer(1_000_000n);
  using dead = world.first.openLine("relay_dead");
  for (let batch = 0; batch < 2; batch += 1) {
    await dead.send(Array.from({ length: 300 }, () => reserveOf(payer, v7(), 10n)));
  }
  using line = world.first.openLine("relay_alive");
  const ended = await verdictOf(line, { case: "endSession", value: { relaySession: "relay_dead" } });
  assert.equal(ended, Verdict.OK);
  assert.equal((await world.first.admin.getHolds({ accountId: payer.accountId })).openHolds, 0n);
});

test("a malformed operation is answered as a conflict and leaves the rest of its batch alone", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_malformed");
  const good = reserveOf(payer, v7(), 1n);
  const results = await line.send([
    reserveOf(payer, "not-a-rid", 1n),
    reserveOf(payer, v7(), -1n),
    reserveOf({ keyHash: new Uint8Array(31) }, v7(), 1n),
    { ...good, value: { ...good.value, rid: v7(), ip: "not-an-address" } },
    { case: "settle", value: { ...settleOf(payer, v7(), 1n).value, record: new Uint8Array() } },
    { case: "settle", value: { ...settleOf(payer, v7(), 2n ** 53n).value } },
    { case: "endSession", value: { relaySession: "" } },
    { case: undefined },
    good,
  ]);
  assert.deepEqual(verdictsOf(results), [...Array.from({ length: 8 }, () => Verdict.CONFLICT), Verdict.OK]);
});

test("a stream of a relay that cannot be right is ended with INVALID_ARGUMENT", async () => {
  const lookups = Array.from({ length: 513 }, () => ({ case: "lookup", value: { rid: v7() } }) as const);
  using large = world.first.openLine("relay_large");
  await assert.rejects(large.send(lookups), /more than 512 operations/);
  assert.equal((await large.ended).code, 3);
  using nameless = world.first.openLine("");
  await assert.rejects(nameless.send([]), /relay_session is not an id/);
});

test("a relay that sends faster than it is answered gets every answer all the same", async () => {
  const payer = await world.createPayer(1_000_000n);
  using line = world.first.openLine("relay_fast");
  const batches = Array.from({ length: 300 }, () => [reserveOf(payer, v7(), 1n), authorizeOf(payer)]);
  const results = await Promise.all(batches.map((batch) => line.send(batch)));
  assert.deepEqual(new Set(verdictsOf(results.flat())), new Set([Verdict.OK]));
  assert.equal((await world.first.admin.getHolds({ accountId: payer.accountId })).openHolds, 300n);
});

test("the hold of a charge that cannot be stays until a charge that can be, or its booking, closes it", async () => {
  const payer = await world.createPayer(10_000n);
  using line = world.first.openLine("relay_absurd");
  const [bounded, booked] = [v7(), v7()];
  const absurd = [2n ** 53n, -1n, 2n ** 63n - 1n];
  for (const rid of [bounded, booked]) {
    assert.equal(await verdictOf(line, reserveOf(payer, rid, 100n)), Verdict.OK);
    const refused = await line.send(absurd.map((costNanos) => settleOf(payer, rid, costNanos)));
    assert.deepEqual(verdictsOf(refused), [Verdict.CONFLICT, Verdict.CONFLICT, Verdict.CONFLICT]);
  }
  const holds = async () => {
    const { openHolds, unpostedNanos } = await world.first.admin.getHolds({ accountId: payer.accountId });
    return [openHolds, unpostedNanos];
  };
  assert.deepEqual(await holds(), [2n, 0n]);
  assert.equal(await verdictOf(line, settleOf(payer, bounded, 90n)), Verdict.OK);
  assert.deepEqual(await holds(), [1n, 90n]);
  const { accountId, keyId } = payer;
  world.billing.balances.set(accountId, { nanos: 9_920n, version: 2n });
  await world.first.admin.post({ calls: [{ rid: booked, accountId, keyId, bookedNanos: 80n, isFinal: true }] });
  assert.deepEqual(await holds(), [0n, 90n]);
});

test("a batch without operations is answered: it is a heartbeat", async () => {
  using line = world.first.openLine("relay_heart");
  assert.deepEqual(await line.send([]), []);
});

test("neither secrets nor their hashes appear in the log, and conflicts appear with their rid", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_log");
  const rid = v7();
  await line.send([reserveOf(payer, rid, 100n), reserveOf(payer, rid, 101n)]);
  const text = world.logText();
  assert.ok(text.includes(rid));
  for (const form of ["hex", "base64", "base64url"] as const) {
    assert.ok(!text.includes(Buffer.from(payer.keyHash).toString(form)), form);
  }
  assert.ok(!text.includes(payer.secret));
});

test("calls of a relay with a wrong clock are refused undecided, told by one line and not as conflicts; the time is told", async () => {
  const payer = await world.createPayer(1_000n);
  using line = world.first.openLine("relay_clock");
  const inAnHour = (): string => v7({ msecs: Date.now() + 3_600_000 });
  const calls = Array.from({ length: 20 }, () => reserveOf(payer, inAnHour(), 1n));
  const [results, others] = [await line.send(calls), await line.send(calls)];
  assert.deepEqual(new Set(verdictsOf([...results, ...others])), new Set([Verdict.UNAVAILABLE]));
  const lines = world.logText().match(/[^\n]*relay_clock[^\n]*/g) ?? [];
  assert.deepEqual(
    lines.map((text) => /clock skew between a relay and Redis too large/.test(text)),
    [true],
  );
  const metrics = await (await fetch(`http://127.0.0.1:${world.first.app.opsPort}/metrics`)).text();
  assert.match(metrics, /auth_quota_skewed_calls_total\{[^}]*\} 40\n/);
  assert.ok(Math.abs(Number(line.timeMs()) - Date.now()) < 60_000);
  assert.equal(await verdictOf(line, reserveOf(payer, v7(), 1n)), Verdict.OK, "served again once its clock is right");
});

test("metrics tell verdicts, conflicts, batches and Redis times", async () => {
  const ask = async () => (await fetch(`http://127.0.0.1:${world.first.app.opsPort}/metrics`)).text();
  await until("gauges are read", async () => /auth_quota_outbox_size\{[^}]*\} [1-9]/.test(await ask()));
  const text = await ask();
  assert.match(text, /auth_quota_verdicts_total\{operation="reserve",verdict="ok",[^}]*\} \d+/);
  assert.match(text, /auth_quota_verdicts_total\{operation="authorize",verdict="key_invalid",[^}]*\} \d+/);
  assert.match(text, /auth_quota_conflicts_total\{operation="reserve",reason="content",[^}]*\} \d+/);
  assert.match(text, /auth_quota_conflicts_total\{operation="none",reason="malformed",[^}]*\} \d+/);
  assert.match(text, /auth_quota_batch_operations_bucket/);
  assert.match(text, /auth_quota_redis_duration_seconds_bucket\{le="[^"]*",[^}]*outcome="answered"/);
  assert.match(text, /auth_quota_outbox_oldest_seconds\{[^}]*\} \d/);
  assert.match(text, /auth_quota_open_holds\{[^}]*\} [1-9]/);
});

test("a replica that stops decides until its relays have found another one, ends when they have, and takes no new ones", async () => {
  const payer = await world.createPayer(1_000n);
  const replica = await world.startReplica({ DRAIN_MS: 120_000 });
  const line = replica.openLine("relay_leaving");
  await line.send([authorizeOf(payer)]);
  const stopped = replica.app[Symbol.asyncDispose]();
  await until("it says that it stops", () => line.isStopping());
  const readyz = await fetch(`http://127.0.0.1:${replica.app.opsPort}/readyz`);
  assert.equal(await readyz.text(), "stopping\n");
  assert.equal(await verdictOf(line, reserveOf(payer, v7(), 1n)), Verdict.OK);
  using channel = connectGrpc(`127.0.0.1:${replica.app.grpcPort}`);
  using late = openRelayLine(channel, "relay_late");
  await assert.rejects(late.send([]), /stream ended: 14/);
  line.leave();
  assert.equal((await line.ended).code, 0);
  await stopped;
});

test("a relay that finds no other replica is left in the end, and what is in hand is answered", async () => {
  const payer = await world.createPayer(1_000n);
  const replica = await world.startReplica();
  const line = replica.openLine("relay_drain");
  await line.send([]);
  const gate = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  world.billing.beforeAnswer = () => {
    asked.resolve();
    return gate.promise;
  };
  const slow = line.send([reserveOf(payer, v7(), 1n)]);
  await Promise.race([asked.promise, slow]);
  const stopped = replica.app[Symbol.asyncDispose]();
  gate.resolve();
  assert.deepEqual(verdictsOf(await slow), [Verdict.OK]);
  assert.equal((await line.ended).code, 0);
  await stopped;
});
