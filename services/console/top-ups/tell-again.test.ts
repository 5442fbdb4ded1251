import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { createLog } from "#shared/process/log.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { createMetrics } from "../metrics.ts";
import { createStripe } from "../payments/stripe.ts";
import { secretKey, startPaying, type PaymentEnvironment } from "../testing/paying.ts";
import { join, setUp, type TestPerson } from "../testing/people.ts";
import { createTellAgain, type TellAgainDeps } from "./tell-again.ts";

let paying: PaymentEnvironment;
let owner: TestPerson;
let sql: PaymentEnvironment["world"]["database"]["sql"];
before(async () => {
  paying = await startPaying();
  const { world } = paying;
  sql = world.database.sql;
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => paying[Symbol.asyncDispose]());
beforeEach(async () => {
  paying.stripe.events.length = 0;
  await sql("UPDATE console.told_payments SET told_until = now() - interval '1 hour', ledger_epoch = 1");
});

type Call = TellAgainDeps["billing"]["credit"];

/** A replica ten minutes from now, beside a ledger with these payments. */
function startReplica(resources: AsyncDisposableStack, payments: string[] = []) {
  const { world, stripe } = paying;
  const ledger = { payments, epoch: 1, credited: [] as string[] };
  const clock = { nowMs: () => Date.now() + 600_000 };
  const metrics = createMetrics(createRegistry("console"));
  const lines: Record<string, unknown>[] = [];
  const billing = {
    getProgress: async () => ({ ledgerEpoch: ledger.epoch }),
    listLedgerLines: async ({ accountId = "", kind = 0 }) => ({
      lines:
        accountId === "acme" && kind === LineKind.CREDIT ? ledger.payments.map((reference) => ({ reference })) : [],
    }),
    credit: async ({ paymentId = "", note = "", amountNanos = 0n }: Parameters<Call>[0]) => {
      ledger.credited.push(`${paymentId} ${amountNanos} ${note}`);
      ledger.payments.push(paymentId);
      return { line: { lineId: "line" } };
    },
    correct: async () => ({ line: { lineId: "line" } }),
  };
  const authQuota = {
    getAccounts: async ({ accountIds = [] as string[] }) => ({
      accounts: accountIds.filter((id) => id === "acme").map((accountId) => ({ accountId })),
    }),
  };
  const deps = {
    pool: resources.use(createPool(world.database.url, "test", () => undefined)),
    billing: billing as unknown as TellAgainDeps["billing"],
    authQuota: authQuota as unknown as TellAgainDeps["authQuota"],
    metrics,
    log: createLog("test", "error", { write: (line) => void lines.push(JSON.parse(line)) }),
    payments: createStripe({ secretKey, webhookSecrets: [], apiUrl: new URL(stripe.url), clock }),
    clock,
  };
  const lost = async () =>
    (await metrics.topUps.get()).values.filter(({ labels }) => labels["outcome"] === "lost").map(({ value }) => value);
  return { pass: createTellAgain(deps), ledger, lost, lines };
}

/** Pays 5 USD by card, of which the webhook hears; gives the payment's id and that of the top-up. */
async function pay() {
  const { stripe } = paying;
  await owner.browser.get("/accounts/acme/top-up");
  const sent = await owner.browser.post("/accounts/acme/top-up/checkout", { amount: "5" });
  const session = stripe.pay(sent.location.replace(`${stripe.url}/pay/`, ""));
  assert.equal(await stripe.tell("checkout.session.completed", session), 200);
  return { paymentId: `stripe:${session.payment_intent}`, topUpId: session.client_reference_id ?? "", session };
}

const stateOf = async (topUpId: string) =>
  (await sql(`SELECT state FROM console.top_up WHERE top_up_id = '${topUpId}'`))[0]?.["state"];

test("a payment that console and ledger have lost is told to a person, once; one that the ledger has is not", async () => {
  await using resources = new AsyncDisposableStack();
  const [gone, kept] = [await pay(), await pay()];
  await sql("DELETE FROM console.top_up");
  const { pass, ledger, lost, lines } = startReplica(resources, [kept.paymentId]);
  await pass();
  await pass();
  assert.deepEqual([await lost(), ledger.credited], [[1], []]);
  assert.partialDeepStrictEqual(lines.at(-1), {
    accountId: "acme",
    paymentId: gone.paymentId,
    amountNanos: "5000000000",
    currency: "usd",
  });
});

test("one that an older copy of the console's own data knows as begun is booked", async () => {
  await using resources = new AsyncDisposableStack();
  const { topUpId, paymentId } = await pay();
  await sql(
    `UPDATE console.top_up SET state = 'begun', payment_id = NULL, paid_at = NULL WHERE top_up_id = '${topUpId}'`,
  );
  const { pass, ledger } = startReplica(resources);
  await pass();
  assert.deepEqual([await stateOf(topUpId), ledger.payments], ["paid", [paymentId]]);
});

test("a ledger that was restored is asked about the payments of a month, and what it lacks is booked again, once", async () => {
  await using resources = new AsyncDisposableStack();
  const [one, other] = [await pay(), await pay()];
  await sql("UPDATE console.told_payments SET told_until = now()");
  const { pass, ledger, lost } = startReplica(resources, [other.paymentId]);
  await pass();
  assert.deepEqual(ledger.credited, [], "the same ledger has what it had");
  ledger.epoch = 2;
  await pass();
  assert.deepEqual(ledger.credited, [], "it books again by itself first");
  await pass();
  await pass();
  assert.deepEqual(ledger.credited, [`${one.paymentId} 5000000000 top-up ${one.topUpId}`]);
  assert.deepEqual(await lost(), []);
});

test("a payment that has gone back, or that was paid beside another, is not booked again", async () => {
  await using resources = new AsyncDisposableStack();
  const [back, twice] = [await pay(), await pay()];
  const { stripe } = paying;
  const refund = { id: "ch_1", amount_refunded: 500, payment_intent: back.session.payment_intent, metadata: {} };
  assert.equal(await stripe.tell("charge.refunded", refund), 200);
  await stripe.tell("checkout.session.completed", { ...twice.session, payment_intent: "pi_another" });
  const { pass, ledger, lost } = startReplica(resources, [twice.paymentId]);
  await pass();
  assert.deepEqual([ledger.credited, await lost()], [[], [1]], "of the one that went back a person must know");
});

test("payments of other installations are none of ours, and more than a page is read", async () => {
  await using resources = new AsyncDisposableStack();
  const { session } = await pay();
  await sql("DELETE FROM console.top_up");
  const { stripe } = paying;
  stripe.events.length = 0;
  for (let count = 0; count < 250; count += 1) {
    const object = {
      ...session,
      payment_intent: `pi_${count}`,
      metadata: { ...session.metadata, account_id: "other" },
    };
    await stripe.tell("checkout.session.completed", count === 249 ? session : object, {
      created: 1 + Date.now() / 1_000 - count,
    });
  }
  const { pass, lost } = startReplica(resources);
  await pass();
  assert.deepEqual(await lost(), [1]);
});

test("while the provider is away nothing is passed over", async () => {
  await using resources = new AsyncDisposableStack();
  await pay();
  await sql("DELETE FROM console.top_up");
  const { pass, lost } = startReplica(resources);
  paying.stripe.failure = 500;
  await assert.rejects(pass(), { code: "unavailable" }).finally(() => (paying.stripe.failure = undefined));
  await pass();
  assert.deepEqual(await lost(), [1]);
});
