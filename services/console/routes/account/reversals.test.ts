import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import type { World } from "../../testing/console.ts";
import type { FakeSession, FakeStripe } from "../../testing/fake-stripe.ts";
import { startPaying, type PaymentEnvironment } from "../../testing/paying.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

const path = "/accounts/acme/top-up";
const completed = "checkout.session.completed";

let paying: PaymentEnvironment;
let world: World;
let stripe: FakeStripe;
let owner: TestPerson;

before(async () => {
  paying = await startPaying();
  ({ world, stripe } = paying);
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => paying[Symbol.asyncDispose]());
beforeEach(() => {
  world.neighbours.received.length = 0;
  world.neighbours.balances.clear();
});

/** Begins to pay as the owner; tells the session at the provider. */
async function begin(): Promise<FakeSession> {
  await owner.browser.get(path);
  const sent = await owner.browser.post(`${path}/checkout`, { amount: "25.50" });
  const session = stripe.sessions.get(sent.location.replace(`${stripe.url}/pay/`, ""));
  assert.ok(session, sent.location);
  return session;
}

const balance = (): bigint => world.neighbours.balances.get("acme") ?? 0n;
const trailOf = ({ metadata }: FakeSession) =>
  world.database.sql(
    `SELECT action, after FROM console.audit_entry WHERE target = '${metadata["top_up_id"] ?? ""}' ORDER BY audit_id`,
  );

async function counted(outcome: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${world.app.opsPort}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith("console_top_ups_total{") && one.includes(`"${outcome}"`));
  return Number(line?.split(" ").at(-1) ?? 0);
}

describe("a payment", () => {
  it("that goes back in parts is taken from the account by itself, once, and given back when a refund fails", async () => {
    const session = stripe.pay((await begin()).id);
    await stripe.tell(completed, session);
    const about = { payment_intent: session.payment_intent };
    const charge = (refunded: number) => ({ id: "ch_1", object: "charge", amount_refunded: refunded, ...about });
    const left = async (type: string, object: object, created: number): Promise<bigint> => {
      for (const again of [1, 2]) assert.equal(await stripe.tell(type, object, { created }), 200, `time ${again}`);
      return balance();
    };
    assert.equal(await left("charge.refunded", charge(1_000), 10), 15_500_000_000n);
    assert.equal(await left("charge.refunded", charge(2_550), 20), 0n);
    assert.equal(await left("charge.refunded", charge(1_000), 10), 0n, "one that comes late");
    assert.equal(await left("refund.failed", { id: "re_1", amount: 1_000, ...about }, 30), 10_000_000_000n);
    const taken = (await trailOf(session)).filter(({ action }) => action === "top-up.reverse");
    assert.deepEqual(
      taken.map((entry) => (entry["after"] as { amountNanos: string }).amountNanos),
      ["-10000000000", "-15500000000", "10000000000"],
    );
    assert.deepEqual([await counted("taken_back"), await counted("given_back")], [2, 1]);
    assert.equal(await stripe.tell("charge.refunded", { ...charge(100), payment_intent: "pi_of_nobody" }), 200);
  });

  it("of which 20 reversals are told at once, in any order, is taken from the account once", async () => {
    const session = stripe.pay((await begin()).id);
    await stripe.tell(completed, session);
    const about = { payment_intent: session.payment_intent };
    const dispute = { id: "dp_20", object: "dispute", amount: 2_550, status: "needs_response", ...about };
    const told = Array.from({ length: 20 }, (_, at) => {
      if (at % 2 === 0) return stripe.tell("charge.dispute.created", dispute, { created: 10 + at });
      const charge = { id: "ch_20", object: "charge", amount_refunded: 150 * at, ...about };
      return stripe.tell("charge.refunded", charge, { created: 10 + at });
    });
    const statuses = await Promise.all(told);
    assert.equal(balance(), 0n, statuses.join());
    const taken = (await trailOf(session)).filter(({ action }) => action === "top-up.reverse");
    const sum = taken.reduce((all, entry) => all + BigInt((entry["after"] as { amountNanos: string }).amountNanos), 0n);
    assert.equal(sum, -25_500_000_000n);
  });

  it("that is disputed is taken from the account until the dispute is won; never more than was paid", async () => {
    const session = stripe.pay((await begin()).id);
    await stripe.tell(completed, session);
    const about = { payment_intent: session.payment_intent };
    const dispute = { id: "dp_1", object: "dispute", amount: 2_550, status: "needs_response", ...about };
    assert.equal(await stripe.tell("charge.dispute.created", dispute, { created: 10 }), 200);
    assert.equal(await stripe.tell("charge.dispute.funds_withdrawn", dispute, { created: 11 }), 200);
    assert.equal(balance(), 0n);
    await stripe.tell("charge.refunded", { id: "ch_2", amount_refunded: 2_550, ...about }, { created: 12 });
    assert.equal(balance(), 0n);
    await stripe.tell("charge.refunded", { id: "ch_2", amount_refunded: 0, ...about }, { created: 13 });
    assert.equal(await stripe.tell("charge.dispute.closed", { ...dispute, status: "won" }, { created: 14 }), 200);
    assert.equal(balance(), 25_500_000_000n);
  });

  it("whose reversal comes before it is told to be paid is booked and taken back", async () => {
    const session = stripe.pay((await begin()).id);
    const charge = { id: "ch_3", amount_refunded: 550, payment_intent: session.payment_intent };
    assert.equal(await stripe.tell("charge.refunded", { ...charge, metadata: session.metadata }), 200);
    assert.match(world.logText(), /"state":"begun","what":"refunded"/);
    await stripe.tell(completed, session);
    assert.equal(balance(), 20_000_000_000n);
  });

  it("is taken back later, once, when billing is down as it is reversed", async () => {
    const session = stripe.pay((await begin()).id);
    await stripe.tell(completed, session);
    const charge = { id: "ch_4", amount_refunded: 550, payment_intent: session.payment_intent };
    world.neighbours.breakAfter = "correct";
    assert.equal(await stripe.tell("charge.refunded", charge, { created: 10 }), 503);
    world.neighbours.breakAfter = "";
    await stripe.tell("charge.refunded", { ...charge, amount_refunded: 2_550 }, { created: 20 });
    assert.equal(balance(), 0n);
    const corrections = world.neighbours.received.filter(({ method }) => method === "correct");
    assert.deepEqual(
      corrections.map(({ request }) => (request as { amountNanos: bigint }).amountNanos),
      [-5_500_000_000n, -5_500_000_000n, -20_000_000_000n],
    );
  });
});
