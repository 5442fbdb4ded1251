import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { systemClock } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { createPool } from "#shared/stores/postgres.ts";
import type { App } from "../../app.ts";
import { createMetrics } from "../../metrics.ts";
import { settlePendingTopUps, type SettleDeps } from "../../top-ups/settle.ts";
import { createStripe } from "../../payments/stripe.ts";
import type { World } from "../../testing/console.ts";
import { signHeader, type FakeSession, type FakeStripe } from "../../testing/fake-stripe.ts";
import { checkPage } from "../../testing/pages.ts";
import { secretKey, startPaying, webhookOf, webhookSecret, type PaymentEnvironment } from "../../testing/paying.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

const path = "/accounts/acme/top-up";

let paying: PaymentEnvironment;
let world: World;
let stripe: FakeStripe;
let replica: App;
let owner: TestPerson;
let stranger: TestPerson;

before(async () => {
  paying = await startPaying();
  ({ world, stripe } = paying);
  replica = await world.startReplica();
  const operator = await setUp(world);
  for (const accountId of ["acme", "other"]) world.neighbours.addAccount(accountId);
  owner = await join(world, operator.browser, "acme", "owner");
  stranger = await join(world, operator.browser, "other", "owner");
});
after(() => paying[Symbol.asyncDispose]());
beforeEach(async () => {
  world.neighbours.received.length = 0;
  world.neighbours.balances.clear();
  await world.database.sql("UPDATE console.top_up SET created_at = created_at - interval '2 hours'");
});

/** Begins to pay as the owner; tells the session at the provider. */
async function begin(amount = "25.50", { browser }: TestPerson = owner, below = path): Promise<FakeSession> {
  await browser.get(below);
  const sent = await browser.post(`${below}/checkout`, { amount });
  assert.equal(sent.status, 303, sent.text);
  const session = stripe.sessions.get(sent.location.replace(`${stripe.url}/pay/`, ""));
  assert.ok(session, sent.location);
  return session;
}

const completed = "checkout.session.completed";
const backOf = (session: FakeSession): string => new URL(session.success_url).pathname;
const rowOf = async ({ metadata }: FakeSession) => {
  const id = metadata["top_up_id"] ?? "";
  return (await world.database.sql(`SELECT * FROM console.top_up WHERE top_up_id = '${id}'`))[0];
};
const stateOf = async (session: FakeSession) => (await rowOf(session))?.["state"];
const balance = (accountId = "acme"): bigint => world.neighbours.balances.get(accountId) ?? 0n;
const credits = () => world.neighbours.received.filter(({ method }) => method === "credit");
const trailOf = ({ metadata }: FakeSession) =>
  world.database.sql(
    `SELECT action, outcome, email, account_id, before, after FROM console.audit_entry
     WHERE target = '${metadata["top_up_id"] ?? ""}' ORDER BY audit_id`,
  );
/** How many the first replica has counted. */
async function counted(outcome: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${world.app.opsPort}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith("console_top_ups_total{") && one.includes(`"${outcome}"`));
  return Number(line?.split(" ").at(-1) ?? 0);
}

describe("beginning to pay", () => {
  it("leads to the provider's page with our own id, after the row is there", async () => {
    const session = await begin("25.50");
    const row = await rowOf(session);
    assert.deepEqual(
      [row?.["account_id"], row?.["person_id"], row?.["amount_nanos"], row?.["state"], row?.["provider_reference"]],
      ["acme", owner.personId, "25500000000", "begun", session.id],
    );
    assert.equal(session.amount_total, 2_550);
    assert.equal(session.client_reference_id, row?.["top_up_id"]);
    assert.equal(session.success_url, `https://console.example${path}/${String(row?.["top_up_id"])}`);
    assert.equal(session.cancel_url, `https://console.example${path}`);
    const [line] = await trailOf(session);
    assert.deepEqual(line?.["after"], { provider: "stripe", amountNanos: "25500000000" });
    assert.deepEqual(credits(), [], "nothing is booked");
    const page = await owner.browser.get(path);
    checkPage(page, "top-up");
    assert.match(page.text, /<td>25\.50 USD<\/td><td>a person<\/td><td>not paid yet<\/td>/);
  });

  it("is allowed by the policy for forms, which browsers hold redirects to", async () => {
    const { headers } = await owner.browser.get(path);
    const policy = headers.get("content-security-policy")?.split(";") ?? [];
    assert.ok(policy.includes(`form-action 'self' https://checkout.stripe.com ${stripe.url}`), policy.join(";"));
  });

  it("goes on by a page with a link where the provider's page has a domain to which the policy lets no form lead", async () => {
    stripe.pageUrl = "https://pay.example";
    await owner.browser.get(path);
    const sent = owner.browser.post(`${path}/checkout`, { amount: "5" });
    const seen = await sent.finally(() => (stripe.pageUrl = stripe.url));
    assert.equal(seen.title, "On to the payment page");
    assert.match(seen.headers.get("refresh") ?? "", /^0; url=https:\/\/pay\.example\/pay\/cs_test_/);
    assert.match(seen.text, /href="https:\/\/pay\.example\/pay\/cs_test_/);
    checkPage(seen, "on to the payment page");
  });

  it("takes 5.00 to 10,000.00 USD in whole cents, and asks nobody for anything else", async () => {
    stripe.received.length = 0;
    await owner.browser.get(path);
    for (const amount of ["", "4.99", "10000.01", "5.001", "-5", "1e3", "ten"]) {
      const seen = await owner.browser.post(`${path}/checkout`, { amount });
      assert.equal(seen.status, 422, amount);
      checkPage(seen, "wrong amount");
    }
    assert.deepEqual(stripe.received, []);
    assert.equal((await begin("5")).amount_total, 500);
    assert.equal((await begin("10000")).amount_total, 1_000_000);
  });

  it("that the provider does not answer is said, costs nothing, and can be tried again; no secret is in the log", async () => {
    stripe.failure = 500;
    await owner.browser.get(path);
    const seen = await owner.browser
      .post(`${path}/checkout`, { amount: "77" })
      .finally(() => (stripe.failure = undefined));
    assert.equal(seen.status, 503);
    const [row] = await world.database.sql("SELECT * FROM console.top_up WHERE amount_nanos = 77000000000");
    assert.deepEqual([row?.["state"], row?.["provider_reference"]], ["expired", null]);
    assert.match(world.logText(), /statusCode 500/);
    assert.ok(!world.logText().includes(secretKey) && !world.logText().includes(webhookSecret));
  });

  it("is refused after twenty in an hour that were not paid", async () => {
    await world.database.sql(
      `INSERT INTO console.top_up (top_up_id, account_id, person_id, provider, amount_nanos)
       SELECT gen_random_uuid(), 'acme', '${owner.personId}', 'stripe', 1 FROM generate_series(1, 20)`,
    );
    await owner.browser.get(path);
    const seen = await owner.browser.post(`${path}/checkout`, { amount: "5" });
    assert.equal(seen.status, 422);
    assert.match(seen.text, /Too many payments were begun/);
  });
});

describe("a payment", () => {
  it("is booked once to the account of our row, whoever tells of it and however often", async () => {
    const session = stripe.pay((await begin()).id);
    const urls = [world.app, replica, world.app, replica].map(webhookOf);
    const told = await Promise.all([
      ...urls.map((to) => stripe.tell(completed, session, { to })),
      owner.browser.get(backOf(session)).then(({ status }) => status),
    ]);
    assert.deepEqual(told, [200, 200, 200, 200, 200]);
    assert.equal(await stripe.tell(completed, session), 200, "and told again later");
    assert.equal(balance(), 25_500_000_000n);
    const row = await rowOf(session);
    assert.deepEqual([row?.["state"], row?.["payment_id"]], ["paid", `stripe:pi_of_${session.id}`]);
    const booked = (await trailOf(session)).filter(({ action }) => action === "top-up.book");
    assert.equal(booked.length, 1, "one line in the audit log");
    assert.deepEqual(booked[0]?.["after"], {
      state: "paid",
      amountNanos: "25500000000",
      paymentId: `stripe:pi_of_${session.id}`,
      lineId: `line of payment stripe:pi_of_${session.id}`,
    });
    const back = await owner.browser.get(backOf(session));
    checkPage(back, "paid");
    assert.match(back.text, /25\.50 USD was added to the account\.[^]*The balance is 25\.50 USD/);
  });

  it("of which no message comes is booked when the person comes back", async () => {
    const session = stripe.pay((await begin("7")).id);
    const back = await owner.browser.get(backOf(session));
    assert.match(back.text, /7\.00 USD was added to the account/);
    assert.equal(balance(), 7_000_000_000n);
    assert.equal((await trailOf(session)).at(-1)?.["email"], owner.email);
  });

  it("by a way that takes days is booked when it has succeeded, and not when it failed", async () => {
    const session = await begin("8");
    session.status = "complete";
    assert.equal(await stripe.tell(completed, session), 200);
    assert.deepEqual([await stateOf(session), balance()], ["begun", 0n]);
    assert.match((await owner.browser.get(backOf(session))).text, /is not through yet/);
    Object.assign(session, { payment_status: "paid", payment_intent: "pi_slow" });
    assert.equal(await stripe.tell("checkout.session.async_payment_succeeded", session), 200);
    assert.deepEqual([await stateOf(session), balance()], ["paid", 8_000_000_000n]);
    const failed = await begin("9");
    failed.status = "complete";
    assert.equal(await stripe.tell("checkout.session.async_payment_failed", failed), 200);
    assert.deepEqual([await stateOf(failed), balance()], ["expired", 8_000_000_000n]);
  });

  it("is not booked while billing is away: the provider is told to tell it again, and then it is", async () => {
    const session = stripe.pay((await begin()).id);
    world.neighbours.failure = new ServiceError("unavailable", "postgres 10.1.2.3 is away");
    const [told, seen] = await Promise.all([
      stripe.tell(completed, session),
      owner.browser.get(backOf(session)),
    ]).finally(() => (world.neighbours.failure = undefined));
    assert.deepEqual([told, seen.status, await stateOf(session), balance()], [503, 503, "begun", 0n]);
    assert.equal(await stripe.tell(completed, session), 200);
    assert.deepEqual([await stateOf(session), balance()], ["paid", 25_500_000_000n]);
  });

  it("whose booking was answered too late is not booked twice", async () => {
    const session = stripe.pay((await begin()).id);
    world.neighbours.breakAfter = "credit";
    const told = await stripe.tell(completed, session).finally(() => (world.neighbours.breakAfter = ""));
    assert.deepEqual([told, await stateOf(session), balance()], [503, "begun", 25_500_000_000n]);
    assert.equal((await owner.browser.get(backOf(session))).status, 200);
    const [first, second] = credits().map(({ request }) => request);
    assert.deepEqual(first, second, "whoever tells of it asks for the very same, which billing knows again");
    assert.deepEqual([await stateOf(session), balance()], ["paid", 25_500_000_000n]);
  });

  it("of another amount, currency or session than ours is not booked, is loud in the log, and waits for a person", async () => {
    const wrong: Partial<FakeSession>[] = [
      { amount_total: 2_551 },
      { amount_total: 0 },
      { currency: "eur" },
      { id: "cs_of_somebody_else" },
      { payment_intent: null },
    ];
    for (const change of wrong) {
      const session = stripe.pay((await begin()).id);
      assert.equal(await stripe.tell(completed, { ...session, ...change }), 200, "telling it again would not help");
      assert.equal(await stateOf(session), "unbooked", JSON.stringify(change));
      assert.equal((await trailOf(session)).at(-1)?.["action"], "top-up.book");
    }
    assert.deepEqual([credits(), balance()], [[], 0n]);
    assert.match(world.logText(), /paid 25510000000 of 25500000000 nano-USD/);
    assert.equal(await counted("unbooked"), wrong.length);
    const page = await owner.browser.get(path);
    assert.match(page.text, /paid, not booked: ask your operator/);
  });

  it("that is right after all is booked, also when a wrong one or an expiry was told before", async () => {
    const session = stripe.pay((await begin()).id);
    await stripe.tell(completed, { ...session, amount_total: 1 });
    const unbooked = await stateOf(session);
    await stripe.tell(completed, session);
    const late = await begin("6");
    await stripe.tell("checkout.session.expired", { ...late, status: "expired" });
    const expired = await stateOf(late);
    await stripe.tell(completed, stripe.pay(late.id));
    assert.deepEqual(
      [unbooked, await stateOf(session), expired, await stateOf(late)],
      ["unbooked", "paid", "expired", "paid"],
    );
    assert.equal(balance(), 31_500_000_000n);
    await stripe.tell("checkout.session.expired", { ...late, status: "expired" });
    assert.equal(await stateOf(late), "paid", "what is paid stays so");
  });

  it("that billing refuses waits for a person, who finds its id in the log and on the page", async () => {
    const session = stripe.pay((await begin()).id);
    world.neighbours.failure = new ServiceError("failed_precondition", "the balance would leave the range");
    const told = await stripe.tell(completed, session).finally(() => (world.neighbours.failure = undefined));
    assert.deepEqual([told, await stateOf(session)], [200, "unbooked"]);
    assert.match(world.logText(), new RegExp(`"paymentId":"stripe:pi_of_${session.id}"`));
    const back = await owner.browser.get(backOf(session));
    assert.match(back.text, /was added to the account/, "coming back tries once more");
  });

  it("goes to the account of our row, whatever the message says of accounts, and to nobody for a row we do not have", async () => {
    const session = stripe.pay((await begin()).id);
    const { metadata } = session;
    assert.equal(await stripe.tell(completed, { ...session, metadata: { ...metadata, account_id: "other" } }), 200);
    assert.deepEqual([balance("acme"), balance("other")], [25_500_000_000n, 0n]);
    const nobodys = "00000000-0000-4000-8000-000000000000";
    const unknown = { ...session, client_reference_id: nobodys, metadata: { top_up_id: nobodys } };
    assert.equal(await stripe.tell(completed, unknown), 200);
    assert.equal(credits().length, 1);
  });

  it("is shown to its account only", async () => {
    const session = stripe.pay((await begin()).id);
    const topUpId = session.client_reference_id ?? "";
    assert.equal((await stranger.browser.get(`/accounts/other/top-up/${topUpId}`)).status, 404);
    assert.equal((await stranger.browser.get(`${path}/${topUpId}`)).status, 404);
    assert.equal(await stateOf(session), "begun");
    assert.doesNotMatch((await stranger.browser.get("/accounts/other/top-up")).text, /<td>paid<\/td>/);
  });
});

describe("the webhook", () => {
  const post = (body: string, headers: Record<string, string>) =>
    fetch(stripe.webhookUrl, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", ...stripe.webhookHeaders, ...headers },
    });

  it("answers 400 to what Stripe has not signed just now, and books nothing", async () => {
    const session = stripe.pay((await begin()).id);
    const event = (id: string) =>
      JSON.stringify({ object: "event", type: completed, data: { object: { ...session, id } } });
    const body = event(session.id);
    const seconds = Math.floor(Date.now() / 1_000);
    const right = signHeader(body, webhookSecret);
    const wrong: [string, Record<string, string>][] = [
      [body, {}],
      [body, { "stripe-signature": "" }],
      [body, { "stripe-signature": signHeader(body, "wrong-secret") }],
      [body, { "stripe-signature": signHeader(body, webhookSecret, seconds - 310) }],
      [event("altered"), { "stripe-signature": right }],
      [body, { "stripe-signature": right, "content-type": "application/x-www-form-urlencoded" }],
      [body, { "stripe-signature": right, "content-type": "text/plain" }],
    ];
    for (const [sent, headers] of wrong) {
      assert.equal((await post(sent, headers)).status, 400, JSON.stringify(headers));
    }
    assert.deepEqual([credits(), await stateOf(session), balance()], [[], "begun", 0n]);
    assert.equal(await counted("bad_signature"), 5, "what is no JSON is not even looked at");
    assert.equal((await post(body, { "stripe-signature": right })).status, 200);
    assert.equal(await stateOf(session), "paid");
  });

  it("takes 256 KiB, HTTPS only, and POST only; what it does not know it is done with", async () => {
    const large = JSON.stringify({ object: "event", type: "x", data: { object: {} }, more: "a".repeat(262_144) });
    assert.equal((await post(large, { "stripe-signature": signHeader(large, webhookSecret) })).status, 413);
    const body = JSON.stringify({
      object: "event",
      type: "customer.created",
      data: { object: {} },
      more: "a".repeat(100_000),
    });
    const signed = { "stripe-signature": signHeader(body, webhookSecret) };
    assert.equal((await post(body, signed)).status, 200);
    assert.equal((await post(body, { ...signed, "x-forwarded-proto": "http" })).status, 403);
    assert.equal((await fetch(stripe.webhookUrl, { headers: stripe.webhookHeaders })).status, 404);
  });

  it("knows no session: cookies change nothing, and it opens no other way in", async () => {
    const cookie = [...owner.browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    assert.equal((await post("{}", { cookie })).status, 400);
    const port = world.app.httpPort;
    for (const below of [`${path}/checkout`, `${path}/voucher`, "/payments/stripe/webhook/../../../sign-out"]) {
      const body = JSON.stringify({ amount: "5" });
      const seen = await fetch(`http://127.0.0.1:${port}${below}`, {
        method: "POST",
        body,
        redirect: "manual",
        headers: {
          "content-type": "application/json",
          cookie,
          "stripe-signature": signHeader(body, webhookSecret),
          ...stripe.webhookHeaders,
        },
      });
      assert.ok([400, 403, 415].includes(seen.status), `${below}: ${seen.status}`);
      assert.deepEqual(
        seen.headers.getSetCookie().filter((line) => line.includes("session=")),
        [],
      );
    }
    assert.equal((await owner.browser.get(path)).status, 200, "still signed in");
  });
});

it("of which nothing was heard is looked at by itself, once by all replicas, and a look that fails stops no other", async () => {
  const sessions = [await begin("11"), await begin("12"), await begin("13"), await begin("14")] as const;
  const [paid, expired, open, gone] = sessions;
  stripe.pay(paid.id);
  expired.status = "expired";
  stripe.sessions.delete(gone.id);
  const ids = sessions.map(({ metadata }) => `'${metadata["top_up_id"]}'`).join(",");
  await world.database.sql("UPDATE console.top_up SET looked_at = now()");
  const silent = createLog("test", "silent");
  await using pool = createPool(world.database.url, "console", () => undefined);
  using channel = connectGrpc(world.neighbours.billingAddress);
  const deps: SettleDeps = {
    pool,
    billing: unaryClient(BillingService, channel, 5_000),
    metrics: createMetrics(createRegistry("console")),
    log: silent,
    payments: createStripe({
      secretKey,
      webhookSecrets: [webhookSecret],
      apiUrl: new URL(stripe.url),
      clock: systemClock,
    }),
  };
  stripe.received.length = 0;
  await settlePendingTopUps(deps);
  assert.equal(stripe.received.length, 0, "not in the first five minutes");
  await world.database.sql(`UPDATE console.top_up SET looked_at = looked_at - interval '6 minutes',
    created_at = created_at - interval '6 minutes' WHERE top_up_id IN (${ids})`);
  await Promise.all([settlePendingTopUps(deps), settlePendingTopUps(deps)]);
  assert.equal(new Set(stripe.received.map(({ path: at }) => at)).size, stripe.received.length, "each by one replica");
  assert.deepEqual(await Promise.all(sessions.map(stateOf)), ["paid", "expired", "begun", "begun"]);
  assert.equal(balance(), 11_000_000_000n);
  assert.equal((await trailOf(paid)).at(-1)?.["email"], "stripe");
  stripe.received.length = 0;
  await settlePendingTopUps(deps);
  assert.equal(stripe.received.length, 0, "and again only after a while");
  await world.database.sql(`UPDATE console.top_up SET looked_at = looked_at - interval '31 days',
    created_at = created_at - interval '31 days' WHERE top_up_id IN (${ids})`);
  await settlePendingTopUps(deps);
  assert.equal(stripe.received.length, 0, `nor after 30 days: ${open.id}`);
});
