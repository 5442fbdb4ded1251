import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { StoreName } from "#shared/testing/binaries.ts";
import type { Store } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { ask, bodyOf, chat, makeCall, messages, type Reply, sides } from "./ask.ts";
import { costOf } from "./charge.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { type Customer, startWorld } from "./world.ts";

// Unconfirmed charges are looked at again after 2 s instead of 30.
const world = await startWorld({ serviceEnvironment: { billing: { OUTBOX_AGE_MS: "2000" } } });
after(() => world[Symbol.asyncDispose]());
const { relayUrl, stack } = world;
const recoverMs = 60_000;

const usage = { inputTokens: 11, outputTokens: 13 };
const cost = costOf({ inputTokens: 11n, outputTokens: 13n });

function storeOf(name: StoreName): Store {
  const store = stack.stores.processes[name];
  if (!store) throw new Error(`${name} does not run here, so that it cannot be killed`);
  return store;
}

/** A few calls of every kind at once. */
function makeCalls({ secret }: Customer): Promise<Reply[]> {
  const calls = [chat, messages, chat, messages].map((side, index) =>
    makeCall(relayUrl, secret, { side, isStream: index < 2, behaviour: { usage } }),
  );
  return Promise.all(calls);
}

/** Checks that every one of these answers, and nothing else, is booked at its price. */
async function checkAllBooked({ accountId }: Customer, replies: Reply[]): Promise<void> {
  const lines = await world.untilSettled(accountId, replies.length, recoverMs);
  assert.deepEqual(new Set(lines.map(({ rid }) => rid)), new Set(replies.map(({ rid }) => rid)));
  assert.equal(lines.length, replies.length);
  for (const { amountNanos } of lines) assert.equal(amountNanos, -cost);
  const { balanceNanos, availableNanos } = await world.moneyOf(accountId);
  assert.equal(balanceNanos, 10_000_000_000n - cost * BigInt(replies.length));
  assert.equal(availableNanos, balanceNanos);
}

const served = (replies: Reply[]): void =>
  assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([200]));

describe("a store that is down answers 503 with Retry-After, never 401 or 403", () => {
  const outages: [string, () => Promise<void>, () => Promise<void>][] = [
    ["Redis", () => storeOf("redis").kill(), () => storeOf("redis").restart()],
    ["auth-quota", () => stack.services.authQuota.kill(), () => stack.services.authQuota.restart()],
  ];
  for (const [name, stop, start] of outages) {
    test(`${name} is killed and comes back`, async () => {
      const customer = await world.createCustomer();
      const poor = await world.createCustomer({ creditNanos: 0n });
      const before = await makeCalls(customer);
      served(before);
      const received = world.fake.received.length;
      await stop();
      try {
        const asked = sides.flatMap((side) => {
          const right = { side, isStream: true };
          const large = { ...right, prompt: "large ".repeat(20_000) };
          const replies = [
            makeCall(relayUrl, customer.secret, right),
            makeCall(relayUrl, customer.secret, large),
            makeCall(relayUrl, "sk-wrong", right),
            makeCall(relayUrl, poor.secret, right),
          ];
          return replies.map((reply) => ({ side, reply }));
        });
        const list = { method: "GET", headers: { authorization: `Bearer ${customer.secret}` } };
        asked.push({ side: chat, reply: ask(`${relayUrl}/v1/models`, list) });
        await Promise.all(
          asked.map(async ({ side, reply }) => checkRefusal(side, await reply, rows.serviceUnavailable)),
        );
        assert.equal(world.fake.received.length, received, "no call passes unmetered");
      } finally {
        await start();
      }
      const isBack = async () =>
        (await makeCall(relayUrl, customer.secret, { side: chat, behaviour: { usage } })).status;
      const statuses: number[] = [];
      await until(
        "calls are served again",
        async () => {
          statuses.push(await isBack());
          return statuses.at(-1) === 200;
        },
        recoverMs,
      );
      assert.deepEqual(
        new Set(statuses.slice(0, -1)),
        new Set(statuses.length > 1 ? [503] : []),
        "nothing but 503 before",
      );
      assert.equal((await makeCall(relayUrl, "sk-wrong", { side: chat })).status, 401);
      assert.equal((await makeCall(relayUrl, poor.secret, { side: chat })).status, 403);
      const lines = await world.untilSettled(customer.accountId, before.length + 1, recoverMs);
      assert.equal(lines.length, before.length + 1, "refused calls have no line");
    });
  }

  test("auth-quota is killed within a stream: the stream goes on to its end and is charged", async () => {
    const customer = await world.createCustomer();
    const behaviour = { text: "word ".repeat(30).trim(), gapMs: 40, usage };
    const headers = messages.headers(customer.secret);
    const body = bodyOf({ side: messages, isStream: true, behaviour });
    const response = await fetch(`${relayUrl}${messages.path}`, { method: "POST", headers, body });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let stream = Buffer.from((await reader.read()).value ?? []).toString();
    await stack.services.authQuota.kill();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      stream += Buffer.from(piece.value).toString();
    }
    assert.match(stream, /message_stop/);
    await stack.services.authQuota.restart();
    const [line] = await world.untilSettled(customer.accountId, 1, recoverMs);
    assert.deepEqual([line?.amountNanos, line?.usage?.endCause], [-cost, EndCause.COMPLETE]);
    // The charge may have come to the ledger by NATS, before the relay has found auth-quota again.
    const asks = { headers: { authorization: `Bearer ${customer.secret}` } };
    await until("the relay has found auth-quota", async () => (await fetch(`${relayUrl}/v1/models`, asks)).ok);
  });
});

describe("calls are served while the ledger is away, and booked after it returns", () => {
  const outages: [string, () => Promise<void>, () => Promise<void>][] = [
    ["NATS", () => storeOf("nats").kill(), () => storeOf("nats").restart()],
    ["PostgreSQL", () => storeOf("postgres").kill("SIGQUIT"), () => storeOf("postgres").restart()],
    ["billing", () => stack.services.billing.kill(), () => stack.services.billing.restart()],
  ];
  for (const [name, stop, start] of outages) {
    test(`${name} is killed during calls`, async () => {
      const customer = await world.createCustomer();
      const before = await makeCalls(customer);
      const across = makeCall(relayUrl, customer.secret, {
        side: chat,
        isStream: true,
        behaviour: { text: "word ".repeat(40).trim(), gapMs: 25, usage },
      });
      await stop();
      const during: Reply[] = [];
      try {
        for (let round = 0; round < 3; round += 1) during.push(...(await makeCalls(customer)));
        during.push(await across);
        const spent = cost * BigInt(before.length + during.length);
        await until("all of it is charged, before it is booked", async () => {
          const { openHolds, availableNanos } = await world.holdsOf(customer.accountId);
          return openHolds === 0n && availableNanos === 10_000_000_000n - spent;
        });
      } finally {
        await start();
      }
      served([...before, ...during]);
      await checkAllBooked(customer, [...before, ...during]);
    });
  }
});

test("what is charged but not booked yet cannot be spent again", async () => {
  const customer = await world.createCustomer({ creditNanos: 20_000_000n });
  const dear = { side: chat, more: { max_tokens: 10 }, behaviour: { usage: { inputTokens: 11, outputTokens: 1_000 } } };
  const small = { side: chat, more: { max_tokens: 10 }, behaviour: { usage } };
  const first = await makeCall(relayUrl, customer.secret, small);
  await world.untilBooked(customer.accountId, first.rid);
  await stack.services.billing.kill();
  try {
    const second = await makeCall(relayUrl, customer.secret, dear);
    assert.equal(second.status, 200);
    await until("the charge is known", async () => (await world.holdsOf(customer.accountId)).unpostedCalls === 1n);
    const larger = { ...small, more: { max_tokens: 400 } };
    checkRefusal(chat, await makeCall(relayUrl, customer.secret, larger), rows.balance);
    assert.equal((await makeCall(relayUrl, customer.secret, small)).status, 200, "there is enough for a small call");
  } finally {
    await stack.services.billing.restart();
  }
  const lines = await world.untilSettled(customer.accountId, 3, recoverMs);
  const charged = lines.reduce((sum, { amountNanos }) => sum - amountNanos, 0n);
  assert.equal(charged, 2n * cost + costOf({ inputTokens: 11n, outputTokens: 1_000n }));
});

test("after all that: a call is one line again, and nothing is held by anybody", async () => {
  const customer = await world.createCustomer();
  const replies = await makeCalls(customer);
  served(replies);
  await checkAllBooked(customer, replies);
  const { openHolds } = await world.authQuota.getHolds({});
  assert.equal(openHolds, 0n);
  const { records } = await world.billing.listQuarantine({});
  assert.deepEqual(records, []);
});
