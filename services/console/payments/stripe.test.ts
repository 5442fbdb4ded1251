import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { readConfig } from "../config.ts";
import { signHeader, startFakeStripe, type FakeStripe } from "../testing/fake-stripe.ts";
import { BadSignature, type PaymentProvider } from "./provider.ts";
import { createStripe } from "./stripe.ts";
import { environment } from "../testing/environment.ts";

type Vector = { title: string; secret: string; timestamp: number; signature: string; body: string };

// Signed once with `openssl dgst -sha256 -hmac`, by the scheme that Stripe documents.
const file = join(import.meta.dirname, "../testing/stripe-vectors.json");
const vectors = JSON.parse(readFileSync(file, "utf8")) as [Vector, Vector, Vector];
const [paid, refunded, other] = vectors;
const topUpId = "3f0d1c52-6c1e-4a7b-9a55-0d8a4f2f7e11";
const secretKey = "secret-key-of-the-tests";

let fake: FakeStripe;
const clock = { nowMs: () => paid.timestamp * 1_000 };
const create = (webhookSecrets: string[] = [paid.secret]): PaymentProvider =>
  createStripe({ secretKey, webhookSecrets, apiUrl: new URL(fake.url), clock });
const read = ({ body }: Pick<Vector, "body">, header: string, stripe = create()) =>
  stripe.readWebhook(Buffer.from(body), header);
const headerOf = ({ timestamp, signature }: Vector): string => `t=${timestamp},v1=${signature}`;

before(async () => {
  fake = await startFakeStripe({ webhookSecret: "unused" });
});
after(() => fake[Symbol.asyncDispose]());

describe("a message of Stripe", () => {
  it("is read when its recorded signature is right, bytes above ASCII included", () => {
    assert.deepEqual(read(paid, headerOf(paid)), {
      kind: "payment",
      payment: {
        accountId: "acme",
        topUpId,
        reference: "cs_test_vector",
        outcome: "paid",
        paymentId: "stripe:pi_vector",
        amountNanos: 25_500_000_000n,
        currency: "usd",
      },
    });
    const reversal = {
      eventId: "evt_2",
      what: "refunded",
      objectId: "ch_vector",
      amountNanos: 25_500_000_000n,
      createdS: 1_799_999_990,
    };
    const notice = { kind: "reversal", paymentId: "stripe:pi_vector", topUpId: "", reversal };
    assert.deepEqual(read(refunded, headerOf(refunded)), notice);
    assert.equal(read(other, headerOf(other)), undefined, "other events are of no interest");
  });

  it("of which a byte, the time or the signature was altered, or that has none, is refused", () => {
    const { body, timestamp, signature, secret } = paid;
    const wrong: [string, string][] = [
      [body.replace('"amount_total": 2550', '"amount_total": 9550'), headerOf(paid)],
      [`${body}\n`, headerOf(paid)],
      [refunded.body, headerOf(paid)],
      [body, `t=${timestamp + 1},v1=${signature}`],
      [body, `t=${timestamp},v1=${signature.replace(/.$/, (last) => (last === "0" ? "1" : "0"))}`],
      [body, `t=${timestamp},v1=`],
      [body, `t=${timestamp},v0=${signature}`],
      [body, `v1=${signature}`],
      [body, signature],
      [body, ""],
      ["", headerOf(paid)],
      [body, signHeader(body, `${secret}x`, timestamp)],
    ];
    for (const [changed, header] of wrong) {
      assert.throws(() => read({ body: changed }, header), BadSignature, header || "no header");
    }
  });

  it("is refused when it is older than five minutes", () => {
    const at = (seconds: number) =>
      createStripe({
        secretKey,
        webhookSecrets: [paid.secret],
        apiUrl: new URL(fake.url),
        clock: { nowMs: () => (paid.timestamp + seconds) * 1_000 },
      });
    assert.ok(read(paid, headerOf(paid), at(300)));
    assert.throws(() => read(paid, headerOf(paid), at(301)), BadSignature);
  });

  it("counts with each of several secrets, and with none that is not among them", () => {
    assert.ok(read(paid, headerOf(paid), create(["new", paid.secret])));
    assert.throws(() => read(paid, headerOf(paid), create(["new", "newer"])), BadSignature);
    const twice = `t=${paid.timestamp},v1=${"0".repeat(64)},v1=${paid.signature}`;
    assert.ok(read(paid, twice), "Stripe signs with both while a secret is rolled");
  });

  it("tells by status and type what became of a session, and nothing of sessions that are not ours", () => {
    const told = (type: string, change: object) => {
      const { data } = JSON.parse(paid.body) as { data: { object: object } };
      const body = JSON.stringify({ object: "event", type, data: { object: { ...data.object, ...change } } });
      const notice = read({ body }, signHeader(body, paid.secret, paid.timestamp));
      return notice?.kind === "payment" ? `${notice.payment.outcome} ${notice.payment.paymentId}`.trim() : notice?.kind;
    };
    const unpaid = { payment_status: "unpaid" };
    assert.equal(told("checkout.session.completed", {}), "paid stripe:pi_vector");
    assert.equal(told("checkout.session.completed", unpaid), "open", "a bank transfer is on its way");
    assert.equal(told("checkout.session.async_payment_succeeded", {}), "paid stripe:pi_vector");
    assert.equal(told("checkout.session.async_payment_failed", unpaid), "expired");
    assert.equal(told("checkout.session.expired", { ...unpaid, status: "expired" }), "expired");
    assert.equal(told("checkout.session.completed", { metadata: {} }), undefined, "a payment link of the same account");
    assert.equal(told("checkout.session.completed", { metadata: null }), undefined);
    assert.equal(told("checkout.session.completed", { client_reference_id: null }), undefined);
  });

  it("tells by type and status whether money of a payment goes back or comes again", () => {
    const told = (type: string, object: object) => {
      const data = { object: { id: "x", amount: 500, payment_intent: "pi_1", ...object } };
      const body = JSON.stringify({ id: "evt", object: "event", type, created: 7, data });
      const notice = read({ body }, signHeader(body, paid.secret, paid.timestamp));
      return notice?.kind === "reversal" ? `${notice.reversal.what} ${notice.reversal.amountNanos}` : notice;
    };
    const rows: [type: string, object: object, told: string | undefined][] = [
      ["charge.refunded", { amount: 900, amount_refunded: 200 }, "refunded 2000000000"],
      ["refund.failed", { status: "failed" }, "refund-failed 5000000000"],
      ["refund.updated", { status: "canceled" }, "refund-failed 5000000000"],
      ["charge.refund.updated", { status: "failed" }, "refund-failed 5000000000"],
      ["charge.refund.updated", { status: "succeeded" }, undefined],
      ["refund.created", { status: "pending" }, undefined],
      ["charge.dispute.created", { status: "needs_response" }, "disputed 5000000000"],
      ["charge.dispute.created", { status: "warning_needs_response" }, "dispute-ended 5000000000"],
      ["charge.dispute.funds_withdrawn", { status: "needs_response" }, "disputed 5000000000"],
      ["charge.dispute.funds_reinstated", { status: "won" }, "dispute-ended 5000000000"],
      ["charge.dispute.closed", { status: "lost" }, "disputed 5000000000"],
      ["charge.dispute.closed", { status: "won" }, "dispute-ended 5000000000"],
      ["charge.dispute.closed", { status: "warning_closed" }, "dispute-ended 5000000000"],
    ];
    for (const [type, object, expected] of rows) assert.equal(told(type, object), expected, type);
  });
});

describe("a checkout", () => {
  const order = {
    topUpId,
    accountId: "acme",
    amountNanos: 25_500_000_000n,
    successUrl: "https://console.example/done",
    cancelUrl: "https://console.example/back",
    savesCard: false,
  };

  it("is asked for in cents and USD with our id as its idempotency key, and is the same however often", async () => {
    const stripe = create();
    const first = await stripe.beginCheckout(order);
    assert.deepEqual(await stripe.beginCheckout(order), first);
    assert.equal(first.url, `${fake.url}/pay/${first.reference}`);
    const [asked] = fake.received;
    assert.equal(asked?.headers["idempotency-key"], topUpId);
    assert.equal(asked?.headers["authorization"], `Bearer ${secretKey}`);
    assert.equal(asked?.headers["x-stripe-client-telemetry"], undefined);
    assert.deepEqual(Object.fromEntries(new URLSearchParams(asked?.rawBody.toString())), {
      mode: "payment",
      client_reference_id: topUpId,
      "metadata[top_up_id]": topUpId,
      "metadata[account_id]": "acme",
      "payment_intent_data[metadata][top_up_id]": topUpId,
      "payment_intent_data[metadata][account_id]": "acme",
      "payment_intent_data[description]": "Top-up of account acme",
      "line_items[0][quantity]": "1",
      "line_items[0][price_data][currency]": "usd",
      "line_items[0][price_data][unit_amount]": "2550",
      "line_items[0][price_data][product_data][name]": "Top-up of account acme",
      "adaptive_pricing[enabled]": "false",
      success_url: "https://console.example/done",
      cancel_url: "https://console.example/back",
    });
    assert.equal((await stripe.lookUp(first.reference))?.outcome, "open");
    fake.pay(first.reference);
    assert.equal((await stripe.lookUp(first.reference))?.paymentId, `stripe:pi_of_${first.reference}`);
  });

  it("that Stripe refuses or does not answer is unavailable, and the error holds no key and no heads", async () => {
    fake.failure = 401;
    const refused = await create()
      .beginCheckout(order)
      .catch((error: unknown) => error as Error);
    fake.failure = undefined;
    assert.ok(refused instanceof Error && "code" in refused && refused.code === "unavailable");
    const text = JSON.stringify([refused.message, String(refused.cause), Object.entries(refused.cause ?? {})]);
    assert.match(text, /statusCode 401/);
    assert.doesNotMatch(text, new RegExp(secretKey));
    await assert.rejects(create().lookUp("cs_none"), { code: "unavailable" });
  });
});

it("Stripe is set up with both files or not at all, and its key goes in the clear to this machine only", () => {
  const both = { STRIPE_SECRET_KEY_FILE: "key", STRIPE_WEBHOOK_SECRET_FILE: "secret" };
  assert.equal(readConfig({ ...environment, ...both }).STRIPE_API_URL, "https://api.stripe.com");
  for (const STRIPE_API_URL of ["http://127.0.0.1:1234", "http://localhost:1", "https://stripe.example"]) {
    assert.ok(readConfig({ ...environment, ...both, STRIPE_API_URL }));
  }
  for (const STRIPE_API_URL of ["http://stripe.example", "https://a/path", "ftp://a", "x", "http://localhost:1@evil"]) {
    assert.throws(() => readConfig({ ...environment, ...both, STRIPE_API_URL }), /STRIPE_API_URL/, STRIPE_API_URL);
  }
  for (const variable of ["STRIPE_SECRET_KEY_FILE", "STRIPE_WEBHOOK_SECRET_FILE"]) {
    assert.throws(() => readConfig({ ...environment, ...both, [variable]: "" }), /must both be set, or neither/);
  }
});
