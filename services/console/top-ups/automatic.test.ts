import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { create } from "@bufbuild/protobuf";
import { BillingService, GetFundsResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { systemClock } from "#shared/process/clock.ts";
import { createLog } from "#shared/process/log.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { createMetrics } from "../metrics.ts";
import { createStripe } from "../payments/stripe.ts";
import type { World } from "../testing/console.ts";
import { autoPath, autoTopUps } from "../testing/auto-top-up.ts";
import type { FakeStripe } from "../testing/fake-stripe.ts";
import { startMailbox, type Mailbox } from "../testing/mailbox.ts";
import { checkPage } from "../testing/pages.ts";
import { secretKey, startPaying, type PaymentEnvironment } from "../testing/paying.ts";
import { join, setUp, type TestPerson } from "../testing/people.ts";
import { chargeDue } from "./automatic.ts";

let mailbox: Mailbox;
let paying: PaymentEnvironment;
let world: World;
let stripe: FakeStripe;
let owner: TestPerson;
let member: TestPerson;
let auto: ReturnType<typeof autoTopUps>;

before(async () => {
  mailbox = await startMailbox();
  paying = await startPaying({ SMTP_URL_FILE: mailbox.urlFile, MAIL_FROM: "relay@example.org" });
  ({ world, stripe } = paying);
  await world.startReplica();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
  member = await join(world, operator.browser, "acme", "developer");
  auto = autoTopUps(paying, owner);
});
after(async () => {
  await paying[Symbol.asyncDispose]();
  await mailbox[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await world.database.sql("UPDATE console.auto_top_up SET is_on = false");
  await world.database.sql("DELETE FROM console.top_up WHERE is_automatic");
  await auto.forget();
  stripe.cards.intents.clear();
  stripe.cards.attempts = 0;
  mailbox.mails.length = 0;
  auto.setBalance(50n);
});

const intents = () => [...stripe.cards.intents.values()];

describe("saving a card", () => {
  it("is offered to owners with a payment, and shown by its last digits", async () => {
    const none = await owner.browser.get(autoPath);
    checkPage(none, "without a card");
    assert.match(none.text, /No saved card/);
    await auto.saveCard("");
    assert.match((await owner.browser.get(autoPath)).text, /No saved card/, "one that is used once is not kept");
    const session = await auto.saveCard();
    assert.deepEqual([session.setup_future_usage, session.customer], ["off_session", `cus_of_${session.id}`]);
    const seen = await owner.browser.get(autoPath);
    checkPage(seen, "with a card");
    assert.match(seen.text, /visa ending in 4242/);
  });

  it("is not for members, whatever their form says", async () => {
    const session = await auto.saveCard("yes", member);
    assert.deepEqual([session.setup_future_usage, session.customer], [null, null]);
    assert.equal((await member.browser.get(autoPath)).status, 403);
  });
});

describe("an automatic top-up", () => {
  it("charges once and credits once when the balance is low, whatever replicas there are", async () => {
    await auto.saveCard();
    await auto.save();
    await auto.settleDown();
    assert.equal(stripe.cards.attempts, 0, "the balance is high enough");
    auto.setBalance(9n);
    await auto.untilNewest("paid");
    await auto.settleDown();
    assert.deepEqual([intents().length, auto.balance()], [1, 29n]);
    assert.deepEqual(auto.credited().slice(-1), [`stripe:${intents()[0]?.id ?? ""}`]);
    const [intent] = intents();
    assert.deepEqual([intent?.amount, intent?.currency], [2_000, "usd"]);
    const seen = await owner.browser.get(autoPath);
    checkPage(seen, "after a charge");
    assert.match(seen.text, /<td>automatic<\/td><td>paid<\/td>/);
  });

  it("is not made where a charge of another replica has brought the money since the balances were read", async () => {
    await auto.save({ state: "off" });
    await using pool = createPool(world.database.url, "test", () => undefined);
    using channel = connectGrpc(world.neighbours.billingAddress);
    const billing = unaryClient(BillingService, channel, 5_000);
    let asked = 0;
    const stale = {
      ...billing,
      getFunds: async () => {
        asked += 1;
        return create(GetFundsResponseSchema, { accounts: [{ accountId: "acme", balanceNanos: 1n }] });
      },
    };
    const settings = { secretKey, webhookSecrets: [], apiUrl: new URL(stripe.url), clock: systemClock };
    const log = createLog("test", "silent");
    const metrics = createMetrics(createRegistry("console"));
    const payments = createStripe(settings);
    await world.database.sql("UPDATE console.auto_top_up SET is_on = true");
    await until("no other replica was faster", async () => {
      await auto.compareAgain();
      await chargeDue({ pool, billing: stale, metrics, log, payments, clock: systemClock, mailer: undefined });
      return asked > 0;
    });
    await auto.settleDown();
    assert.equal(intents().length, 0);
  });

  it("stays within its cap of a calendar month", async () => {
    await auto.save({ cap: "45" });
    for (const count of [1, 2]) {
      auto.setBalance(0n);
      await until(`${count} are charged`, async () => {
        await auto.compareAgain();
        return intents().length === count && auto.balance() === 20n;
      });
      await auto.untilNewest("paid");
    }
    auto.setBalance(0n);
    await auto.settleDown();
    assert.deepEqual([intents().length, auto.balance()], [2, 0n], "a third one would make it 60");
    assert.match((await owner.browser.get(autoPath)).text, /\$40\.00<\/data>of[^]*?\$45\.00/);
    await auto.forget();
    await until("in the next month it goes on", async () => {
      await auto.compareAgain();
      return intents().length === 3 && auto.balance() === 20n;
    });
    await auto.untilNewest("paid");
  });

  it("that is declined is switched off, told by mail and page, and not tried again", async () => {
    stripe.cards.decline = "card_declined";
    auto.setBalance(1n);
    await auto.save();
    await auto.untilNewest("expired").finally(() => (stripe.cards.decline = undefined));
    await until("it is told", () => mailbox.mails.length > 0);
    const attempted = stripe.cards.attempts;
    await auto.settleDown();
    assert.equal(stripe.cards.attempts, attempted);
    assert.deepEqual([intents().length, auto.balance()], [0, 1n]);
    const [mail] = mailbox.mails;
    assert.deepEqual(mail?.to, [owner.email]);
    assert.match(mail?.text ?? "", /^Subject: The automatic top-up of acme has failed\r$/m);
    const seen = await owner.browser.get(autoPath);
    assert.match(seen.text, /Switched off: the card was declined\./);
    assert.match(seen.text, /<td>automatic<\/td><td>not paid: the card was declined<\/td>/);
    const trail = await world.database.sql("SELECT email FROM console.audit_entry WHERE action = 'top-up.decline'");
    assert.deepEqual(trail, [{ email: "stripe" }]);
  });

  /** Has the card charged, of which the console hears nothing. */
  async function chargeUnheard(): Promise<void> {
    stripe.cards.losesAnswers = true;
    auto.setBalance(2n);
    await auto.save();
    await until("it is charged", async () => {
      await auto.compareAgain();
      return intents().length === 1;
    });
  }

  it("whose answer is lost is asked for in the same words, and charged and credited once", async () => {
    await chargeUnheard();
    await auto.settleDown();
    assert.deepEqual([intents().length, auto.balance(), (await auto.charges()).at(-1)?.["state"]], [1, 2n, "begun"]);
    stripe.cards.losesAnswers = false;
    await until("it is booked", async () => {
      await auto.lookAgain();
      return (await auto.charges()).at(-1)?.["state"] === "paid";
    });
    assert.deepEqual([intents().length, auto.balance()], [1, 22n]);
  });

  it("whose answer is lost is booked when the provider tells of it, from the account that it is of", async () => {
    await chargeUnheard();
    const [intent] = intents();
    const foreign = { ...intent, metadata: { ...intent?.metadata, automatic: "no" } };
    assert.equal(await stripe.tell("payment_intent.succeeded", foreign), 200);
    assert.equal((await auto.charges()).at(-1)?.["state"], "begun", "an intent of a checkout is none of these");
    for (const _ of [1, 2]) assert.equal(await stripe.tell("payment_intent.succeeded", intent ?? {}), 200);
    stripe.cards.losesAnswers = false;
    assert.deepEqual([(await auto.charges()).at(-1)?.["state"], auto.balance()], ["paid", 22n]);
  });

  it("of which nobody knows for a day whether it was made waits for a person, and there is no other", async () => {
    stripe.cards.losesAnswers = true;
    auto.setBalance(2n);
    await auto.save();
    await auto.untilNewest("begun");
    await world.database.sql(
      "UPDATE console.top_up SET created_at = created_at - interval '21 hours' WHERE state = 'begun'",
    );
    await until("it waits for a person", async () => {
      await auto.lookAgain();
      return (await auto.charges()).at(-1)?.["state"] === "unbooked";
    });
    stripe.cards.losesAnswers = false;
    await auto.settleDown();
    assert.deepEqual([intents().length, auto.balance()], [1, 2n]);
    assert.match(world.logText(), /not known whether a card was charged/);
  });

  it("is refused where its amounts make no sense, and needs a card", async () => {
    for (const fields of [{ amount: "4.99" }, { threshold: "0" }, { cap: "19.99" }, { amount: "5.001" }]) {
      const seen = await auto.save(fields);
      assert.equal(seen.status, 422, JSON.stringify(fields));
      checkPage(seen, JSON.stringify(fields));
    }
  });

  it("ends with its card, which the provider forgets", async () => {
    await auto.save();
    await owner.browser.get(autoPath);
    assert.equal((await owner.browser.post(`${autoPath}/card`)).location, autoPath);
    assert.ok(stripe.received.some(({ path }) => path.endsWith("/detach")));
    auto.setBalance(0n);
    await auto.settleDown();
    assert.equal(intents().length, 0);
    assert.match((await owner.browser.get(autoPath)).text, /No saved card/);
  });
});
