import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import OpenAI from "openai";
import type { Page } from "playwright-core";
import type { LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { usd } from "../../../services/console/html/amounts.ts";
import { lineKindWords } from "../../../services/console/html/call-words.ts";
import { signedUsd } from "../../../services/console/html/ledger-lines.ts";
import { pdfWords } from "../../../services/console/testing/pdf-words.ts";
import { checkAccessibility } from "./console/accessibility.ts";
import { needsBrowser } from "./console/browser.ts";
import { amountOf, cellsOf, figureOf } from "./console/figures.ts";
import { credit, inviteInto, makeAccount, noticeOf, type Person, press, seeHeading, signIn } from "./console/people.ts";
import { type Site, startSite } from "./console/site.ts";

describe("the console, clicked through by account owners", needsBrowser, () => {
  let site: Site;
  let owner: Person;
  let accountId: string;
  before(async () => {
    site = await startSite();
    accountId = await makeAccount(site.operator, "Acme", "acme");
    owner = await inviteInto(site.browser, site.operator, accountId);
    await credit(site.operator, accountId, "10");
  });
  after(() => site?.[Symbol.asyncDispose]());

  const client = (apiKey: string): OpenAI =>
    new OpenAI({ apiKey, baseURL: `${site.world.relayUrl}/v1`, maxRetries: 0 });

  const messages = (behaviour: Behaviour): { role: "user"; content: string }[] => [
    { role: "user", content: behaviourText(behaviour, "Hello.") },
  ];

  const complete = (secret: string, behaviour: Behaviour = {}, maxTokens = 100) => {
    const asked = { model: "test-model", messages: messages(behaviour), max_tokens: maxTokens };
    return client(secret).chat.completions.create(asked).withResponse();
  };

  /** The status of a call with this key. */
  const statusOf = async (secret: string, ...asked: [Behaviour?, number?]): Promise<string> => {
    try {
      return String((await complete(secret, ...asked)).response.status);
    } catch (error) {
      if (!(error instanceof OpenAI.APIError)) throw error;
      return `${error.status} ${error.message.replace(/^\d+ /, "")}`;
    }
  };

  const keysPath = (): string => `/accounts/${accountId}/keys`;

  /** Makes a key in the page, which is left showing it; tells its secret. */
  async function makeKey(page: Page, name: string, limit = ""): Promise<string> {
    await page.goto(`${keysPath()}/new`);
    await page.getByLabel("Name").fill(name);
    await page.getByLabel("Spending limit").fill(limit);
    await press(page, "Create key");
    await seeHeading(page, "Your new key");
    return page.locator("code.secret").innerText();
  }

  async function setLimit(page: Page, name: string, limit: string): Promise<void> {
    await page.goto(keysPath());
    await page.getByRole("link", { name: `Change ${name}` }).click();
    await page.getByLabel("Spending limit").fill(limit);
    await press(page, "Save");
    assert.match(await noticeOf(page), /is changed/);
  }

  test("the operator has made the account, invited its owner, and booked what was paid", async () => {
    const { page } = owner;
    await page.goto(`/accounts/${accountId}`);
    await seeHeading(page, "Acme");
    assert.equal(await figureOf(page, "Balance"), "10.00 USD");
    assert.equal(await figureOf(page, "Available now"), "10.00 USD");
    const again = await site.browser.open();
    await signIn(again, owner.email);
    await seeHeading(again, "Acme");
    site.browser.check();
  });

  test("a new key's secret is shown once, copied, used with the openai client, and its calls and charges appear", async () => {
    const { page } = owner;
    const secret = await makeKey(page, "Website");
    await page.getByRole("button", { name: "Copy the secret" }).click();
    await page.getByText("Copied.").waitFor();
    assert.equal(await page.evaluate("navigator.clipboard.readText()"), secret);
    await page.getByRole("link", { name: "I have copied it: back to the keys" }).click();
    await page.goBack().catch(() => undefined);
    await page.waitForURL("chrome-error://chromewebdata/");
    assert.ok(!(await page.content()).includes(secret), "going back shows it again");
    await page.goto(keysPath());
    assert.ok(!(await page.content()).includes(secret));

    const { response, data } = await complete(secret, { text: "Good morning." });
    assert.equal(data.choices[0]?.message.content, "Good morning.");
    const asked = { model: "test-model", messages: messages({ text: "One two three." }), stream: true } as const;
    const streamed = await client(secret).chat.completions.create(asked).withResponse();
    let said = "";
    for await (const chunk of streamed.data) said += chunk.choices[0]?.delta.content ?? "";
    assert.equal(said, "One two three.");
    const rids = [response, streamed.response].map(({ headers }) => headers.get("x-request-id") ?? "");
    const lines = await site.world.untilSettled(accountId, 2);
    const charged = -lines.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);

    await page.goto(`/accounts/${accountId}`);
    assert.equal(amountOf(await figureOf(page, "Balance")), (10_000_000_000n - charged) * 1_000_000n);
    assert.equal(amountOf(await figureOf(page, "Spend today")), charged * 1_000_000n);
    assert.equal(await figureOf(page, "Calls today"), "2, 0 failed");
    await page.goto(`/accounts/${accountId}/usage?group=key`);
    const [spent = "", calls, failed] = await cellsOf(page, "Website");
    assert.deepEqual([amountOf(spent), calls, failed], [charged * 1_000_000n, "2", "0"]);
    for (const rid of rids) await checkCall(page, rid, -(lines.find((line) => line.rid === rid)?.amountNanos ?? 0n));
    await page.goto(`/accounts/${accountId}/ledger`);
    for (const { rid, amountNanos } of lines) {
      const row = page.getByRole("row").filter({ hasText: rid });
      assert.equal(amountOf(await row.getByRole("cell").nth(1).innerText()), amountNanos * 1_000_000n);
    }
    site.browser.check();
  });

  /** Opens a call by its request id; its price, line by line, must come to what was charged. */
  async function checkCall(page: Page, rid: string, chargedNanos: bigint): Promise<void> {
    await page.goto(`/accounts/${accountId}/calls`);
    await page.getByLabel("Request id").fill(rid);
    await press(page, "Find");
    await seeHeading(page, "Call");
    const prices = page.getByRole("table", { name: /^Price by e2e-1/ });
    const amounts = (await prices.locator("tbody td:last-child").allInnerTexts()).map(amountOf);
    const [sum = 0n, cost = 0n] = (await prices.locator("tfoot td").allInnerTexts()).map(amountOf);
    assert.ok(amounts.length >= 2, "input and output have a line each");
    assert.equal(
      amounts.reduce((all, amount) => all + amount, 0n),
      sum,
    );
    assert.ok(cost >= sum && cost - sum < 1_000_000n, "rounded up once, to a whole nano-USD");
    assert.equal(cost, chargedNanos * 1_000_000n);
    assert.equal(amountOf(await figureOf(page, "Charged")), cost);
    assert.equal(await figureOf(page, "HTTP status"), "200");
  }

  test("calls that were refused are told: why, with which key, how often, and what to do", async () => {
    const { page } = owner;
    const secret = await makeKey(page, "Refused", "0.0001");
    const ask = async (body: object): Promise<number> => {
      const url = `${site.world.relayUrl}/v1/chat/completions`;
      const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
      const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
      await answer.text();
      return answer.status;
    };
    const prompt = "a prompt that must be kept nowhere";
    assert.equal(await ask({ model: "test-model", prompt }), 400);
    assert.equal(await ask({ model: "a-model-that-is-none", messages: messages({ text: prompt }) }), 503);
    assert.equal(await statusOf(secret, {}, 100_000), "403 This API key has reached its spending limit");
    assert.equal(await statusOf(secret, {}, 100_000), "403 This API key has reached its spending limit");
    await page.goto(keysPath());
    await press(page, "Stop Refused");
    assert.match(await statusOf(secret), /^401/);
    await until("the refusals are in the page", async () => {
      await page.goto(`/accounts/${accountId}/activity/refused`);
      return (await page.getByRole("row").filter({ hasText: "The key is stopped" }).count()) === 2;
    });
    const told = async (reason: string): Promise<string[]> => (await cellsOf(page, reason)).slice(0, 3);
    assert.deepEqual(await told("More than the key may still spend"), ["403", "Refused", "2"]);
    assert.deepEqual(await told("The key is stopped"), ["401", "Refused", "1"]);
    assert.deepEqual(await told("A field is missing"), ["400", "Refused", "1"]);
    assert.deepEqual(await told("No such model for this key"), ["503", "Refused", "1"]);
    const calls = page.getByRole("table", { name: "The newest of them" });
    assert.equal(await calls.getByRole("row").count(), 6);
    assert.match(await calls.getByRole("row").filter({ hasText: "A field is missing" }).innerText(), /messages/);
    assert.match(await calls.innerText(), /a-model-that-is-none/);
    assert.ok(!(await page.content()).includes(prompt));
    site.browser.check();
  });

  test("a limit set in the page is hit: 403 when the estimate exceeds what is left, 401 once it is used up; raised, it works; stopped, 401", async () => {
    const { page } = owner;
    const secret = await makeKey(page, "Limited", "0.0015");
    // 60 tokens of output cost 0.0009 USD: a second such call exceeds what the first has left.
    assert.equal(await statusOf(secret, { outputTokens: 60 }, 60), "200");
    await site.world.untilSettled(accountId, 3);
    assert.equal(await statusOf(secret, {}, 60), "403 This API key has reached its spending limit");
    await page.goto(keysPath());
    const [, left = ""] = /USD([\d.]+ USD) ?left/.exec((await cellsOf(page, "Limited"))[2] ?? "") ?? [];
    assert.ok(amountOf(left) > 0n, `something is left: ${left}`);
    // The provider counts more than the estimate, as it may: then the limit is used up.
    assert.equal(await statusOf(secret, { usage: { inputTokens: 1, outputTokens: 100 } }, 1), "200");
    await site.world.untilSettled(accountId, 4);
    assert.equal(await statusOf(secret, {}, 1), "401 Invalid API key");
    await setLimit(page, "Limited", "1");
    await until("the raised limit counts", async () => (await statusOf(secret)) === "200", 10_000);
    await press(page, "Stop Limited");
    assert.match(await noticeOf(page), /is stopped/);
    await until("the stopped key is refused", async () => (await statusOf(secret)) === "401 Invalid API key", 10_000);
    await press(page, "Activate Limited");
    await until("the activated key works", async () => (await statusOf(secret)) === "200", 10_000);
    site.browser.check();
  });

  test("an owner is told by mail that the balance is low, once, and where webhooks may not be", async () => {
    const { page } = owner;
    // Invitations are mailed as well.
    const alerts = () => site.mailbox.mails.filter(({ text }) => !text.includes("Subject: Invitation"));
    await page.goto(`/accounts/${accountId}/alerts`);
    await page.getByLabel("Balance below, in USD").fill("1000");
    await press(page, "Save");
    assert.match(await noticeOf(page), /changed/);
    await until("the mail", async () => alerts().length > 0);
    assert.deepEqual(alerts()[0]?.to, [owner.email]);
    assert.match(alerts()[0]?.text ?? "", /^Subject: The balance of acme is below 1000\.00 USD\r$/m);
    await until("it is in the log", async () => {
      await page.reload();
      return (await page.getByRole("row").filter({ hasText: "delivered" }).count()) === 1;
    });
    for (const inside of ["https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/", "http://example.org/"]) {
      await page.getByLabel("Address").fill(inside);
      await press(page, "Add webhook");
      assert.match((await page.getByLabel("Address").getAttribute("aria-describedby")) ?? "", /url-error/, inside);
    }
    assert.equal(alerts().length, 1);
    site.browser.check();
  });

  test("two browsers redeem one voucher at the same time: one wins, and it is booked once", async () => {
    const { browser, operator, world } = site;
    const otherId = await makeAccount(operator, "Other", "other");
    const other = await inviteInto(browser, operator, otherId);
    await operator.page.goto("/operator/vouchers");
    await operator.page.getByLabel("Amount per voucher in USD").fill("7.50");
    await operator.page.getByLabel("Number of vouchers").fill("1");
    await press(operator.page, "Create vouchers");
    const code = (await operator.page.locator("#voucher-codes").innerText()).trim();
    const ids = [accountId, otherId];
    const before = await Promise.all(ids.map((id) => world.moneyOf(id)));
    const pages = [owner.page, other.page];
    for (const [index, page] of pages.entries()) {
      await page.goto(`/accounts/${ids[index] ?? ""}/top-up`);
      await page.getByLabel("Voucher code").fill(code.toLowerCase());
    }
    await Promise.all(pages.map((page) => press(page, "Redeem")));
    const said = await Promise.all(pages.map((page) => page.locator("main").innerText()));
    const won = said.map((text) => text.includes("The voucher of 7.50 USD is booked."));
    const lost = said.map((text) => text.includes("This voucher has been redeemed already, by another account."));
    assert.deepEqual([won.filter(Boolean).length, lost.filter(Boolean).length], [1, 1], said.join("\n"));
    const moved = await Promise.all(ids.map(async (id) => (await world.moneyOf(id)).balanceNanos));
    const gained = moved.map((nanos, index) => nanos - (before[index]?.balanceNanos ?? 0n));
    assert.deepEqual(
      gained,
      won.map((has) => (has ? 7_500_000_000n : 0n)),
    );
    browser.check();
  });

  test("a card pays on the provider's page, and the money is in the account once, whoever tells of it", async () => {
    const { browser, stripe, world } = site;
    const { page } = owner;
    const before = await world.moneyOf(accountId);
    await page.goto(`/accounts/${accountId}/top-up`);
    await page.getByLabel("Amount in USD").fill("20");
    await press(page, "Continue to payment");
    assert.equal(new URL(page.url()).origin, stripe.url);
    await page.getByRole("button", { name: "Pay" }).click();
    await seeHeading(page, "Your payment");
    assert.match(await page.locator("main").innerText(), /Thank you: 20\.00 USD was added to the account/);
    for (const session of stripe.sessions.values()) {
      assert.equal(await stripe.tell("checkout.session.completed", session), 200);
    }
    assert.equal((await world.moneyOf(accountId)).balanceNanos - before.balanceNanos, 20_000_000_000n);
    await page.goto(`/accounts/${accountId}/ledger`);
    assert.equal(await page.getByRole("cell", { name: "+20.00 USD" }).count(), 1);
    browser.check();
  });

  test("a saved card is charged by itself when the balance is low, once within its cap, and the statement equals the ledger", async () => {
    const { browser, stripe, world } = site;
    const { page } = owner;
    await page.goto(`/accounts/${accountId}/top-up`);
    await page.getByLabel("Amount in USD").fill("5");
    await page.getByLabel("The card that you pay with").selectOption("yes");
    await press(page, "Continue to payment");
    await page.getByRole("button", { name: "Pay" }).click();
    await seeHeading(page, "Your payment");
    const before = (await world.moneyOf(accountId)).balanceNanos;

    await page.goto(`/accounts/${accountId}/top-up/automatic`);
    await page.getByLabel("Charge the card when the balance is low").selectOption("on");
    await page.getByLabel("When the balance is below, in USD").fill("1000");
    await page.getByLabel("Amount in USD").fill("25");
    await page.getByLabel("At most in a month, in USD").fill("30");
    await press(page, "Save");
    assert.match(await noticeOf(page), /^Saved\./);
    await until("the charge is on the page and in the account", async () => {
      await page.reload();
      const paid = await page.getByRole("row").filter({ hasText: "25.00" }).filter({ hasText: "paid" }).count();
      return paid === 1 && (await world.moneyOf(accountId)).balanceNanos === before + 25_000_000_000n;
    });
    assert.deepEqual(
      [...stripe.cards.intents.values()].map(({ amount }) => amount),
      [2_500],
    );
    await page.goto(`/accounts/${accountId}/ledger`);
    assert.equal(await page.getByRole("cell", { name: "+25.00 USD" }).count(), 1);

    await checkStatement(page);
    browser.check();
  });

  /** The statement of this month, opened and downloaded: page and file must say what the ledger's lines come to. */
  async function checkStatement(page: Page): Promise<void> {
    const { billing } = site.world;
    const { lines } = await billing.listLedgerLines({ accountId, limit: 1_000 });
    const monthStart = new Date().toISOString().slice(0, 8) + "01";
    const isOfMonth = ({ bookedAt }: LedgerLine): boolean =>
      bookedAt !== undefined && timestampDate(bookedAt) >= new Date(monthStart);
    const ofMonth = lines.filter(isOfMonth);
    const sumOf = (some: LedgerLine[]): bigint => some.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
    const balances = [sumOf(lines) - sumOf(ofMonth), sumOf(lines)] as const;
    assert.equal(balances[1], (await site.world.moneyOf(accountId)).balanceNanos);
    await page.goto(`/accounts/${accountId}/ledger`);
    await page.getByRole("link", { name: "This month" }).click();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download as PDF" }).click(),
    ]);
    assert.match(file.suggestedFilename(), new RegExp(`^statement-${accountId}-${monthStart}-to-[\\d-]+\\.pdf$`));
    const words = pdfWords(await readFile(await file.path()));
    for (const [name, balance] of [
      ["Balance before", balances[0]],
      ["Balance after", balances[1]],
    ] as const) {
      assert.equal((await cellsOf(page, name))[1], usd(balance));
      assert.ok(words.includes(`${name}|${usd(balance)}|`), words);
    }
    const kinds = Map.groupBy(ofMonth, ({ kind }) => lineKindWords(kind));
    assert.deepEqual([...kinds.keys()].toSorted(), ["Charge", "Payment"]);
    for (const [name, booked] of kinds) {
      const [count, amount] = await cellsOf(page, name);
      assert.deepEqual([count, amount], [String(booked.length), signedUsd(sumOf(booked))]);
      assert.ok(words.includes(`${name}|${booked.length}|${signedUsd(sumOf(booked))}|`), words);
    }
  }

  /** With script: a picture of a file, and two models that answer side by side. */
  async function compareOnPicture(page: Page): Promise<void> {
    const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    await page.getByText("Picture", { exact: true }).click();
    const file = { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(picture, "base64") };
    await page.getByLabel("Or a file").setInputFiles(file);
    const hidden = page.locator("input[name=picture]");
    await until("it is in the form", async () => (await hidden.inputValue()).startsWith("data:image/jpeg;base64,"));
    await page.getByLabel("Compare with").fill("test-model");
    await page.getByLabel("Message", { exact: true }).fill(behaviourText({ text: "A dot." }));
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator("main a[href*='/calls/']").nth(3).waitFor();
    const sides = page.locator("[data-side]");
    assert.match(await sides.nth(2).innerText(), /^Answer 3 A: test-model\s+A dot\./);
    assert.match(await sides.nth(3).innerText(), /^Answer 3 B: test-model\s+A dot\./);
    assert.equal(await hidden.inputValue(), "", "it goes with its message alone");
    await checkAccessibility(page);
  }

  test("the playground holds a conversation, with script and without: figures, code, a call each, and an end", async () => {
    const plain = await site.browser.open({ hasScript: false });
    await signIn(plain, owner.email);
    for (const page of [owner.page, plain]) {
      await page.goto(`/accounts/${accountId}/playground`);
      await page.getByLabel("Model").fill("test-model");
      await page.getByText("System message and parameters").click();
      await page.getByLabel("Temperature").fill("0.5");
      const message = page.getByLabel("Message", { exact: true });
      const links = page.locator("main a[href*='/calls/']");
      for (const [index, text] of ["Nice to meet you.", "Nice to see you again."].entries()) {
        await message.fill(behaviourText({ text, gapMs: 50 }));
        await page.getByRole("button", { name: "Send" }).click();
        await links.nth(index).waitFor();
        assert.match(await page.locator("main").innerText(), new RegExp(`^${text}$`, "m"));
        assert.equal(await message.inputValue(), "");
      }
      const rid = await links.nth(1).innerText();
      await until("the call is booked", () => site.world.untilBooked(accountId, rid));
      await page.getByText("View code").click();
      await page.getByText("Node", { exact: true }).click();
      const code = await page.locator("#code-node").innerText();
      assert.match(code, /role: "assistant", content: "Nice to meet you\."/);
      assert.match(code, /temperature: 0\.5,/);
      if (page === owner.page) await checkAccessibility(page);
      if (page === owner.page) await compareOnPicture(page);
      await page.getByRole("button", { name: "Clear" }).click();
      await links.first().waitFor({ state: "detached" });
      assert.equal(await page.getByLabel("Temperature").inputValue(), "0.5");
      await page.goto(`/accounts/${accountId}/calls/${rid}`);
      await seeHeading(page, "Call");
      assert.match(await page.content(), /Playground of /);
    }
    site.browser.check();
  });
});
