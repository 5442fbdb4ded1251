import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall, type Reply } from "./ask.ts";
import { prices } from "./catalog.ts";
import { assertBooksRight, killInMidLoad, readKillPlan, readMetric, startKillLoad, startKillWorld } from "./kills.ts";
import { type Customer, startWorld, type World } from "./world.ts";

const withLeases = { relay: { LEASE_FROM_CALLS_PER_SECOND: "1" } };

let world: World;
before(async () => {
  // What auth-quota was not told of is told again soon.
  world = await startWorld({ serviceEnvironment: { ...withLeases, billing: { OUTBOX_AGE_MS: "2000" } } });
});
after(() => world[Symbol.asyncDispose]());

// Small holds, so that a lease is worth it in an account with little; and a provider that takes its time, because calls
// as fast as the machine can make them show nothing more.
const small = { side: chat, more: { max_tokens: 16 }, behaviour: { headersAfterMs: 20 } };
const call = ({ secret }: Customer): Promise<Reply> => makeCall(world.relayUrl, secret, small);
const metric = (name: string): Promise<number> => readMetric(world.stack.services.relay.opsUrl, name);

/** Calls one after the other by a few callers, until `isOver`; gives their answers. */
async function keepBusy(customer: Customer, isOver: () => boolean): Promise<Reply[]> {
  const replies: Reply[] = [];
  const caller = async (): Promise<void> => {
    while (!isOver()) replies.push(await call(customer));
  };
  await Promise.all([caller(), caller(), caller(), caller()]);
  return replies;
}

/** Keeps a key busy until calls of it are admitted within a lease, and on until the work is done. */
async function whileLeased<T>(customer: Customer, work: () => Promise<T>): Promise<{ result: T; replies: Reply[] }> {
  let isOver = false;
  const busy = keepBusy(customer, () => isOver);
  const leasedBefore = await metric("relay_leased_calls_total");
  try {
    const isLeased = async (): Promise<boolean> => (await metric("relay_leased_calls_total")) > leasedBefore;
    await until("calls are admitted within a lease", isLeased);
    const result = await work();
    isOver = true;
    return { result, replies: await busy };
  } finally {
    isOver = true;
  }
}

test("calls within a lease are charged as any other, once each", async () => {
  const customer = await world.createCustomer();
  const { replies } = await whileLeased(customer, async () => undefined);
  assert.deepEqual([...new Set(replies.map(({ status }) => status))], [200]);
  const lines = await world.untilSettled(customer.accountId, replies.length);
  assert.equal(new Set(lines.map(({ rid }) => rid)).size, replies.length);
  const { balanceNanos, availableNanos } = await world.moneyOf(customer.accountId);
  assert.equal(availableNanos, balanceNanos, "the lease has come back");
  const { records } = await world.billing.listQuarantine({});
  assert.deepEqual(records, [], "every charge is proven");
});

test("a key that is stopped is refused soon after, by the relay that has a lease on it too", async () => {
  const customer = await world.createCustomer();
  const { result: refused } = await whileLeased(customer, async () => {
    await world.authQuota.updateKey({ keyId: customer.keyId, status: KeyStatus.STOPPED });
    return until("a call is refused", async () => ((await call(customer)).status === 401 ? true : undefined));
  });
  assert.ok(refused);
  for (let calls = 0; calls < 5; calls += 1) assert.equal((await call(customer)).status, 401);
});

test("what a lease leaves unused is had by another key of the account", async () => {
  const customer = await world.createCustomer({ creditNanos: 2_000_000_000n });
  const other = await world.createKey(customer.accountId);
  const { result: dear } = await whileLeased(customer, async () => {
    const { availableNanos, balanceNanos } = await world.moneyOf(customer.accountId);
    assert.ok(availableNanos < balanceNanos, "some of the money is leased");
    // More than is available now, less than there is.
    const heldNanos = Number(availableNanos + balanceNanos) / 2;
    const n = 8;
    const max_tokens = Math.floor((heldNanos * 1e6) / Number(prices.reasoningTokens) / n);
    return makeCall(world.relayUrl, other.secret, { side: chat, more: { max_tokens, n } });
  });
  assert.equal(dear.status, 200, dear.text);
});

test("while auth-quota is away, calls within a lease are served, and booked when it is back", async () => {
  const customer = await world.createCustomer();
  const stranger = await world.createCustomer();
  const { authQuota } = world.stack.services;
  const { result: served, replies } = await whileLeased(customer, async () => {
    await authQuota.kill();
    const own = await Promise.all([call(customer), call(customer), call(customer)]);
    assert.equal((await call(stranger)).status, 503);
    await authQuota.restart();
    return own;
  });
  assert.deepEqual(
    served.map(({ status }) => status),
    [200, 200, 200],
  );
  const paid = [...served, ...replies].filter(({ status }) => status === 200);
  await world.untilSettled(customer.accountId, paid.length);
});

test("kill -9 of relay and auth-quota with leases: none lost, none double", async (t) => {
  const plan = readKillPlan(t);
  await using scenario = await startKillWorld(withLeases);
  const { authQuota, relay } = scenario.world.stack.services;
  await using load = startKillLoad(scenario, plan);
  let leased = 0;
  for (let kill = 1; kill <= plan.kills; kill += 1) {
    const victim = kill % 2 === 1 ? relay : authQuota;
    leased += await readMetric(relay.opsUrl, "relay_leased_calls_total");
    await killInMidLoad(t, victim, { ...plan, load });
    await victim.restart();
  }
  await load.more(60);
  await load.stop();
  const report = await assertBooksRight(t, scenario, { calls: load.calls, relays: [relay] });
  leased += await readMetric(relay.opsUrl, "relay_leased_calls_total");
  t.diagnostic(`${leased} calls within leases`);
  assert.ok(report.served > 0 && leased > 0);
});
