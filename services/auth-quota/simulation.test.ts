import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as fc from "fast-check";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import type { HotSums } from "./store/hot.ts";
import { book, createLedger, credit, spentBy, type Ledger, type LedgerUpdate } from "./testing/reference-ledger.ts";
import * as reference from "./testing/reference-model.ts";
import { actor, freshNames, newRid, startHotWorld, type HotEnvironment, type Names } from "./testing/hot-world.ts";

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld({ accountPerMinute: 1_000_000, ipPerMinute: 1_000_000 });
});
after(() => world[Symbol.asyncDispose]());

const payers = 2;
const callsPerRun = 10;
const limits = [undefined, 300] as const;
const accountLimits = [350, undefined] as const;

// What a call asks for is fixed by its number, as every sender of it says the same; only order and repetition vary.
// Money is short, so that refusals are as frequent as grants.
const estimates = [50, 120, 150, 90, 90, 80, 200, 0, 60, 700] as const;
const costs = [40, 150, 10, 90, 120, 60, 200, 0, 70, 100] as const;

type Step =
  | { do: "reserve" | "settle" | "release" | "extend" | "checkpoint" | "book"; call: number; amount: number }
  | { do: "expire" }
  | { do: "credit"; payer: number; amount: number }
  | { do: "deliver"; which: number; isKept: boolean };

const call = fc.nat({ max: callsPerRun - 1 });
const amount = fc.nat({ max: 250 });
const smallAmount = fc.nat({ max: 60 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("reserve" as const), call, amount }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("settle" as const), call, amount }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("release" as const), call, amount }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("extend" as const), call, amount }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("checkpoint" as const), call, amount }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("book" as const), call, amount }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("expire" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("credit" as const),
      payer: fc.nat({ max: payers - 1 }),
      amount: smallAmount,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("deliver" as const), which: fc.nat({ max: 1_000 }), isKept: fc.boolean() }),
  },
);

/** One run: the script under test, the reference model, the ledger, and what it has told but nobody delivered. */
type Run = {
  actors: ReturnType<typeof actor>[];
  names: Names[];
  rids: string[];
  model: reference.Model;
  ledger: Ledger;
  mail: LedgerUpdate[];
  /** What each relay told the ledger directly, over the stream of usage events. */
  settled: Set<string>;
};

async function startRun(): Promise<Run> {
  const session = freshNames().session;
  const names = Array.from({ length: payers }, () => ({ ...freshNames(), session }));
  const actors = names.map((one) => actor(world.hot, one));
  const model = reference.createModel();
  for (const [index, one] of actors.entries()) {
    const limit = limits[index];
    const accountLimit = accountLimits[index];
    await (accountLimit === undefined ? one.setAccount() : one.limitAccount(BigInt(accountLimit), 1));
    if (accountLimit !== undefined) model.limits.set(one.account, accountLimit);
    await one.setKey({ limitNanos: limit === undefined ? undefined : BigInt(limit) });
    await one.fund(0, 0);
    await one.spend(0, 0);
    if (limit !== undefined) model.limits.set(one.key, limit);
  }
  const rids = Array.from({ length: callsPerRun }, newRid);
  return { actors, names, rids, model, ledger: createLedger(), mail: [], settled: new Set() };
}

function callOf(run: Run, number: number) {
  const acting = run.actors[number % payers];
  const rid = run.rids[number];
  if (!acting || rid === undefined) throw new Error("no such call");
  return { acting, rid, owner: acting, estimate: estimates[number] ?? 0, cost: costs[number] ?? 0 };
}

async function deliver(run: Run, told: LedgerUpdate): Promise<void> {
  const acting = run.actors.find((one) => one.account === told.account);
  if (!acting) throw new Error("no such account");
  // In one Post, and so in one step: sums first, then the call.
  reference.setSum(run.model.balances, told.account, told.balance);
  reference.setSum(run.model.spending, told.key, told.spending);
  const { nanos, version } = told.balance;
  reference.setSum(run.model.spentByAccount, told.account, { nanos: told.accountSpent, version });
  await acting.fund(nanos, version, told.accountSpent);
  await acting.spend(told.spending.nanos, told.spending.version);
  reference.post(run.model, told.rid, acting, told);
  await acting.post(told.rid, told.booked, told.isFinal);
}

/** Books what a usage event of the call would say now: the final when it was settled, else the last checkpoint. */
function bookCall(run: Run, number: number): void {
  const { rid, owner, cost } = callOf(run, number);
  const known = run.model.calls.get(rid);
  const isFinal = run.settled.has(rid);
  const provisional = known?.state === "expired" ? known.charged : 0;
  if (!isFinal && provisional === 0) return;
  run.mail.push(
    book(run.ledger, { rid, account: owner.account, key: owner.key, cost: isFinal ? cost : provisional, isFinal }),
  );
}

async function take(run: Run, action: Step): Promise<void> {
  switch (action.do) {
    case "expire":
      reference.expireAll(run.model);
      await run.actors[0]?.endSession();
      return;
    case "credit": {
      const account = run.actors[action.payer]?.account ?? "";
      const sum = credit(run.ledger, account, action.amount);
      const spent = spentBy(run.ledger, account);
      reference.setSum(run.model.balances, account, sum);
      reference.setSum(run.model.spentByAccount, account, { nanos: spent, version: sum.version });
      await run.actors[action.payer]?.fund(sum.nanos, sum.version, spent);
      return;
    }
    case "deliver": {
      const [told] = run.mail.splice(action.which % Math.max(1, run.mail.length), 1);
      if (!told) return;
      if (action.isKept) run.mail.push(told);
      return deliver(run, told);
    }
    case "book":
      return bookCall(run, action.call);
    default:
      return askRelay(run, { do: action.do, call: action.call, amount: action.amount });
  }
}

type RelayStep = { do: "reserve" | "settle" | "release" | "extend" | "checkpoint"; call: number; amount: number };

async function askRelay(run: Run, action: RelayStep): Promise<void> {
  const { acting, rid, owner, estimate, cost } = callOf(run, action.call);
  const availableBefore = (await acting.sums()).availableNanos ?? 0;
  const heldBefore = run.model.calls.get(rid)?.held ?? 0;
  const [expected, found] = await (async () => {
    switch (action.do) {
      case "reserve":
        return [reference.reserve(run.model, rid, owner, estimate), await acting.reserve(rid, estimate)];
      case "extend":
        return [reference.extend(run.model, rid, action.amount), await acting.extend(rid, action.amount)];
      case "checkpoint":
        return [reference.checkpoint(run.model, rid, action.amount), await acting.checkpoint(rid, action.amount)];
      case "release":
        return [reference.release(run.model, rid, owner), await acting.release(rid)];
      case "settle":
        run.settled.add(rid);
        return [reference.settle(run.model, rid, owner, cost), await acting.settle(rid, cost)];
    }
  })();
  assert.equal(found.code, expected, `${action.do} of call ${action.call}`);
  const granted = (run.model.calls.get(rid)?.held ?? 0) - heldBefore;
  const isGrant = (action.do === "reserve" || action.do === "extend") && expected === Verdict.OK && granted > 0;
  if (isGrant) assert.ok(availableBefore - granted >= 0, "no grant takes what is available below zero");
}

async function assertSame(run: Run): Promise<void> {
  const sums = await Promise.all(run.actors.map((acting) => acting.sums()));
  const states = await Promise.all(run.rids.map((rid, number) => callOf(run, number).acting.lookup(rid)));
  for (const [index, acting] of run.actors.entries()) {
    const { hasSettings: _hasSettings, ...found } = sums[index] as HotSums;
    assert.deepEqual(found, reference.sumsOf(run.model, acting.account), "sums equal what the calls add up to");
    assertNotOverstated(run, acting.account, found.availableNanos ?? 0);
  }
  for (const [number, rid] of run.rids.entries()) {
    assert.equal(states[number], reference.lookup(run.model, rid), `state of ${number}`);
  }
}

/** Whatever the order of messages, what the hot store was told about calls is never missing from what it gives out. */
function assertNotOverstated({ model, ledger }: Run, account: string, availableNanos: number): void {
  // Credits reach the hot store at once in this test, so this is all that was ever put in.
  let most = ledger.balances.get(account)?.nanos ?? 0;
  for (const { account: payer, booked } of bookedCalls(ledger)) if (payer === account) most += booked;
  for (const one of model.calls.values()) {
    if (one.account !== account) continue;
    const charged = one.state === "held" ? one.held : one.state === "posted" ? 0 : one.charged;
    most -= Math.max(charged, one.booked);
  }
  assert.ok(availableNanos <= most, `available ${availableNanos} is above ${most}`);
}

function bookedCalls({ calls }: Ledger): { account: string; booked: number }[] {
  return [...calls.values()].map(({ account, amount: booked }) => ({ account, booked }));
}

/** Everything that is still under way arrives: events, bookings, Posts, in the order that the seed gives. */
async function finish(run: Run): Promise<void> {
  reference.expireAll(run.model);
  await run.actors[0]?.endSession();
  for (let number = 0; number < callsPerRun; number += 1) bookCall(run, number);
  for (const told of run.mail.splice(0)) await deliver(run, told);
  await assertSame(run);
  for (const acting of run.actors) {
    const balance = run.ledger.balances.get(acting.account)?.nanos ?? 0;
    const { hasSettings: _hasSettings, ...sums } = await acting.sums();
    const nothing = { openHolds: 0, heldNanos: 0, unpostedCalls: 0, unpostedNanos: 0 };
    assert.deepEqual(sums, { ...nothing, availableNanos: balance }, "at the end available is the balance");
  }
}

test("any history of operations keeps the money states right after every step", { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 90 }), async (steps) => {
      const run = await startRun();
      await take(run, { do: "credit", payer: 0, amount: 300 });
      await take(run, { do: "credit", payer: 1, amount: 400 });
      for (const action of steps) {
        await take(run, action);
        await assertSame(run);
      }
      await finish(run);
    }),
    { numRuns: 150 },
  );
});
