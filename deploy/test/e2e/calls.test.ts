import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause, RecordKind, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { chat, makeCall, messages, type Reply, type Side, sides } from "./ask.ts";
import { prices, priceVersion } from "./catalog.ts";
import { costOf, unitsOf } from "./charge.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();

type Claim = { [K in "inputTokens" | "cacheReadTokens" | "outputTokens" | "reasoningTokens"]?: number } & {
  cacheWrite5mTokens?: number;
  cacheWrite1hTokens?: number;
};

const toUnits = (claim: Claim): Units =>
  Object.fromEntries(Object.entries(claim).map(([bucket, units]) => [bucket, BigInt(units)]));

test("the expectations of these tests are right themselves: 1 token in and 1 out cost 18,000.000026, so 18,001", () => {
  assert.equal(costOf({ inputTokens: 1n, outputTokens: 1n }), 18_001n);
  assert.equal(costOf({ inputTokens: 1_000_000n }), 3_000_000_007n);
  assert.equal(costOf({}), 0n);
});

const usages: { kind: string; claim: Claim; sides: Side[] }[] = [
  { kind: "plain", claim: { inputTokens: 1, outputTokens: 1 }, sides },
  { kind: "cached", claim: { inputTokens: 100, cacheReadTokens: 1_777, outputTokens: 10 }, sides },
  { kind: "reasoning", claim: { inputTokens: 31, outputTokens: 12, reasoningTokens: 345 }, sides },
  { kind: "cache-write 5m", claim: { inputTokens: 3, cacheWrite5mTokens: 2_049, outputTokens: 5 }, sides },
  { kind: "cache-write 1h", claim: { inputTokens: 3, cacheWrite1hTokens: 4_099, outputTokens: 5 }, sides: [messages] },
  {
    kind: "every bucket at once",
    claim: {
      inputTokens: 101,
      cacheReadTokens: 211,
      cacheWrite5mTokens: 307,
      cacheWrite1hTokens: 401,
      outputTokens: 503,
      reasoningTokens: 601,
    },
    sides: [messages],
  },
];

// Every test has a customer of its own and tells the upstream how to behave in its own request.
const atOnce = { concurrency: 4 };

describe(
  "API spec, What the service does: 5. Use is metered. A call is one ledger line of usage × price to the nano-dollar, and the balance moves by exactly it",
  atOnce,
  () => {
    for (const { kind, claim, sides: formats } of usages) {
      for (const side of formats) {
        for (const isStream of [false, true]) {
          test(`${kind} usage, ${side.path}, ${isStream ? "streamed" : "whole"}`, async () => {
            const customer = await world.createCustomer({ creditNanos: 5_000_000_000n });
            const reply = await makeCall(world.relayUrl, customer.secret, {
              side,
              isStream,
              behaviour: { usage: claim },
            });
            assert.equal(reply.status, 200, reply.text);
            const line = await world.untilBooked(customer.accountId, reply.rid);
            const cost = costOf(toUnits(claim));
            assert.deepEqual(unitsOf(line), toUnits(claim));
            assert.equal(line.amountNanos, -cost);
            assert.deepEqual(await world.moneyOf(customer.accountId), {
              balanceNanos: 5_000_000_000n - cost,
              availableNanos: 5_000_000_000n - cost,
              openHolds: 0n,
              unpostedCalls: 0n,
            });
            assert.equal((await world.ledgerOf(customer.accountId)).length, 1);
          });
        }
      }
    }
  },
);

describe("the event of a call says what was asked, what was served, where, at which price and how it ended", () => {
  for (const side of sides) {
    for (const isStream of [false, true]) {
      test(`${side.path}, ${isStream ? "streamed" : "whole"}`, async () => {
        const customer = await world.createCustomer();
        const behaviour = { text: "Hello there.", servedModel: "upstream-name-2026-01-15" };
        const call = { side, isStream, model: "renamed-model", behaviour };
        const reply = await makeCall(world.relayUrl, customer.secret, call);
        const line = await world.untilBooked(customer.accountId, reply.rid);
        const { usage } = line;
        assert.equal(line.kind, LineKind.CHARGE);
        const { kind, rid, accountId, keyId, endpoint, modelRequested, modelServed, upstream } = usage;
        assert.deepEqual(
          { kind, rid, accountId, keyId, endpoint, modelRequested, modelServed, upstream },
          {
            kind: RecordKind.FINAL,
            rid: reply.rid,
            accountId: customer.accountId,
            keyId: customer.keyId,
            endpoint: side.path,
            modelRequested: "renamed-model",
            modelServed: "upstream-name-2026-01-15",
            upstream: "fake",
          },
        );
        const { endCause, usageSource, httpStatus, streamed, costNanos: cost } = usage;
        assert.deepEqual(
          { endCause, usageSource, httpStatus, streamed, cost, priceVersion: usage.priceVersion },
          {
            endCause: EndCause.COMPLETE,
            usageSource: UsageSource.PROVIDER,
            httpStatus: 200,
            streamed: isStream,
            cost: -line.amountNanos,
            priceVersion,
          },
        );
        const charged = usage.unitPriceNanos;
        for (const [bucket, price] of Object.entries(prices)) assert.equal(charged?.[bucket as keyof Units], price);
        const truth = world.fake.truth.find((record) => record.rid === reply.rid);
        assert.equal(usage.usage?.inputTokens, BigInt(truth?.promptTokens ?? -1));
        assert.equal(usage.usage?.outputTokens, 2n);
        assert.ok(usage.heldNanos > cost, "the hold covered the charge");
        const started = Number(usage.startedAt?.seconds);
        assert.ok(Math.abs(started - Date.now() / 1_000) < 60 && usage.firstByteAt && usage.endedAt);
      });
    }
  }
});

describe("whole, the provider told none: input and output counted from what was sent, flagged as estimated", () => {
  for (const side of sides) {
    for (const isStream of [false, true]) {
      test(`${side.path}, ${isStream ? "streamed" : "whole"}`, async () => {
        const customer = await world.createCustomer();
        // A tokenizer makes some 50 to 150 tokens of the output, and 6,667 of the input; estimates are at most half
        // more.
        const behaviour = { text: "abcdefg ".repeat(50).trimEnd(), usage: "omit" as const };
        const call = { side, isStream, behaviour, prompt: "words ".repeat(6_667).slice(0, 40_000) };
        const reply = await makeCall(world.relayUrl, customer.secret, call);
        assert.equal(reply.status, 200, reply.text);
        const line = await world.untilBooked(customer.accountId, reply.rid);
        const units = unitsOf(line);
        assert.equal(line.usage.usageSource, UsageSource.ESTIMATED);
        assert.equal(line.usage.endCause, EndCause.COMPLETE);
        assert.deepEqual(Object.keys(units), ["inputTokens", "outputTokens"]);
        assert.ok((units.outputTokens ?? 0n) >= 50n && (units.outputTokens ?? 0n) < 225n, `${units.outputTokens}`);
        assert.ok((units.inputTokens ?? 0n) >= 6_667n && (units.inputTokens ?? 0n) < 10_100n, `${units.inputTokens}`);
        assert.equal(line.amountNanos, -costOf(units));
      });
    }
  }
});

test("100 calls at once are 100 ledger lines; their sum is exact and nothing stays held", async () => {
  const creditNanos = 50_000_000_000n;
  const customer = await world.createCustomer({ creditNanos });
  const claims = Array.from({ length: 100 }, (_, index) => ({ inputTokens: 100 + index, outputTokens: 1 + index }));
  const replies = await Promise.all(
    claims.map((usage, index) => {
      const call = { side: index % 3 === 0 ? messages : chat, isStream: index % 2 === 0, behaviour: { usage } };
      return makeCall(world.relayUrl, customer.secret, call);
    }),
  );
  assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([200]));
  const lines = await world.untilSettled(customer.accountId, 100);
  assert.equal(lines.length, 100);
  const expected = new Map(replies.map(({ rid }: Reply, index) => [rid, -costOf(toUnits(claims[index] ?? {}))]));
  assert.deepEqual(new Map(lines.map(({ rid, amountNanos }) => [rid, amountNanos])), expected);
  const charged = [...expected.values()].reduce((sum, amount) => sum + amount, 0n);
  const { balanceNanos, availableNanos, openHolds } = await world.moneyOf(customer.accountId);
  assert.deepEqual([balanceNanos, availableNanos, openHolds], [creditNanos + charged, creditNanos + charged, 0n]);
});

test("API spec, Limits: Per-key spending limit | Exhausted: 401. A key with one is charged like any other", async () => {
  const customer = await world.createCustomer({ key: { limitNanos: 100_000_000n } });
  const usage = { inputTokens: 30_000, outputTokens: 1_000 };
  const more = { max_tokens: 1_000 };
  const first = await makeCall(world.relayUrl, customer.secret, { side: chat, more, behaviour: { usage } });
  assert.equal(first.status, 200, first.text);
  await world.untilBooked(customer.accountId, first.rid);
  const second = await makeCall(world.relayUrl, customer.secret, { side: chat });
  assert.equal(second.status, 401, "the first call cost more than the key may spend");
  const other = await world.createKey(customer.accountId);
  const third = await makeCall(world.relayUrl, other.secret, { side: chat });
  assert.equal(third.status, 200, "the account has money left for other keys");
  await world.untilBooked(customer.accountId, third.rid);
});
