import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { after, before, beforeEach, describe, it } from "node:test";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { VoucherState } from "#proto/billing/v1/billing_pb.ts";
import type { Fields, SeenPage } from "../../testing/browser.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";
import { createVoucherCode, hashVoucherCode } from "../../sign-in/voucher-codes.ts";

let world: World;
let operator: TestPerson;
let owner: TestPerson;
let stranger: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  for (const accountId of ["acme", "other"]) world.neighbours.addAccount(accountId);
  owner = await join(world, operator.browser, "acme", "owner");
  stranger = await join(world, operator.browser, "other", "owner");
});
after(() => world[Symbol.asyncDispose]());
beforeEach(() => {
  const { vouchers, received } = world.neighbours;
  vouchers.batches.clear();
  vouchers.vouchers.clear();
  vouchers.credits.length = 0;
  received.length = 0;
});

const base = "/operator/vouchers";
const make = (fields: Fields = {}) =>
  operator.browser.fill(base, { amount: "25", count: "1", "last-day": "", note: "", ...fields });
const codesOn = ({ text }: SeenPage): string[] =>
  /<pre id="voucher-codes">([^<]*)<\/pre>/.exec(text)?.[1]?.split(" ") ?? [];
const batch = () => [...world.neighbours.vouchers.batches.values()].at(-1);
const topUp = (accountId: string) => `/accounts/${accountId}/top-up`;
const redeem = ({ browser }: TestPerson, accountId: string, code: string) =>
  browser.submit(topUp(accountId), { code }, `${topUp(accountId)}/voucher`);
const trail = (action: string) =>
  world.database.sql(
    `SELECT outcome, account_id, target, before, after FROM console.audit_entry
     WHERE action = '${action}' ORDER BY audit_id`,
  );

describe("codes of vouchers", () => {
  it("have 100 random bits in letters that are not mistaken for one another", () => {
    const codes = Array.from({ length: 200 }, createVoucherCode);
    assert.equal(new Set(codes).size, 200);
    for (const code of codes) assert.match(code, /^(?:[0-9A-HJKMNP-TV-Z]{5}-){3}[0-9A-HJKMNP-TV-Z]{5}$/);
    const used = new Set(codes.join(""));
    assert.equal(used.size, 33, "all 32 letters and the dash");
  });

  it("are read however they are typed, O as 0 and I and L as 1, and kept as SHA-256 of their letters", () => {
    const right = hash("sha256", "0123456789ABCDEFGHJ1", "buffer");
    for (const typed of [
      "01234-56789-ABCDE-FGHJ1",
      "0123456789abcdefghj1",
      " o1234 56789 abcde fghjl ",
      "0I234–56789—ABCDE\tFGHJi",
    ]) {
      assert.deepEqual(hashVoucherCode(typed), right, typed);
    }
    for (const wrong of ["", "01234-56789-ABCDE-FGHJ", "01234-56789-ABCDE-FGHJ1-0", "U1234-56789-ABCDE-FGHJ1"]) {
      assert.equal(hashVoucherCode(wrong), undefined, wrong);
    }
  });
});

describe("making vouchers", () => {
  it("shows the codes on the answer and nowhere else, ever; billing gets their hashes", async () => {
    const made = await make({ amount: "12.50", count: "3", "last-day": "2199-01-31", note: "<b>fair</b>" });
    assert.equal(made.title, "Your new vouchers");
    checkPage(made, "new vouchers");
    const codes = codesOn(made);
    assert.equal(codes.length, 3);
    assert.match(made.text, /<button type="button" class="outline small" data-copy="voucher-codes" hidden>/);
    const hashes = codes.map((code) => hashVoucherCode(code)?.toString("hex"));
    assert.deepEqual([...world.neighbours.vouchers.vouchers.keys()], hashes);
    const { batchId = "", amountNanos, expiresAt, note } = batch() ?? {};
    assert.equal(amountNanos, 12_500_000_000n);
    assert.equal(expiresAt && timestampDate(expiresAt).toISOString(), "2199-02-01T00:00:00.000Z");
    assert.equal(note, "<b>fair</b>");
    const pages = [base, `${base}/${batchId}`, `${base}/${batchId}/void`, "/operator/audit"];
    const texts = [world.logText(), JSON.stringify(await world.database.sql("SELECT * FROM console.audit_entry"))];
    texts.push(JSON.stringify(await world.database.sql("SELECT * FROM console.session")));
    for (const path of pages) {
      const seen = await operator.browser.get(path);
      checkPage(seen, path);
      texts.push(seen.text);
    }
    for (const code of codes) {
      for (const text of texts) assert.ok(!text.includes(code) && !text.includes(code.replaceAll("-", "")));
    }
    assert.match(texts.join(" "), /&#60;b&#62;fair/, "the list shows the note, escaped");
    const after = { count: 3, amountNanos: "12500000000", expiresAt: "2199-02-01T00:00:00.000Z", note: "<b>fair</b>" };
    assert.deepEqual(
      (await trail("vouchers.create")).map((line) => [line["outcome"], line["target"], line["after"]]),
      [
        ["asked", batchId, after],
        ["done", batchId, after],
      ],
    );
  });

  it("refuses what is no amount, number or day to come, and asks billing for nothing", async () => {
    for (const wrong of [
      { amount: "0" },
      { amount: "0.009" },
      { amount: "-1" },
      { amount: "9007199.254740992" },
      { count: "0" },
      { count: "1001" },
      { count: "1.5" },
      { "last-day": "2026-01-01" },
      { "last-day": "2027-02-29" },
      { note: "a".repeat(501) },
    ]) {
      const seen = await make(wrong);
      assert.equal(seen.status, 422, JSON.stringify(wrong).slice(0, 60));
      checkPage(seen, "wrong batch");
    }
    assert.deepEqual(world.neighbours.received, []);
    assert.equal(codesOn(await make({ count: "1000" })).length, 1_000);
  });

  it("whose answer is lost says so, shows no code, and leaves a batch that can be made void", async () => {
    world.neighbours.breakAfter = "createVouchers";
    const seen = await make().finally(() => (world.neighbours.breakAfter = ""));
    assert.equal(seen.status, 503);
    assert.equal(seen.title, "It is not known whether the vouchers were made");
    checkPage(seen, "lost answer");
    assert.deepEqual(codesOn(seen), []);
    const path = /href="(\/operator\/vouchers\/[\w-]+)"/.exec(seen.text)?.[1] ?? "";
    assert.equal(path, `${base}/${batch()?.batchId}`);
    assert.equal((await trail("vouchers.create")).at(-1)?.["outcome"], "asked");
    const voided = await operator.browser.submit(`${path}/void`, {}, `${path}/void`);
    assert.match(voided.text, /Vouchers made void: 1\./);
    assert.match(voided.text, /<td>void<\/td>/);
  });
});

describe("a batch", () => {
  it("tells the state of each voucher, and its rest is made void after a page that asks", async () => {
    const [first = "", second = ""] = codesOn(await make({ count: "3" }));
    await redeem(owner, "acme", first);
    const path = `${base}/${batch()?.batchId}`;
    const shown = await operator.browser.get(path);
    assert.match(shown.text, /<th scope="row">1<\/th><td>redeemed<\/td><td><a href="\/operator\/accounts\/acme">acme/);
    assert.match(shown.text, /<th scope="row">2<\/th><td>open<\/td><td>–<\/td>/);
    const question = await operator.browser.get(`${path}/void`);
    assert.match(question.text, /2 of 3 vouchers/);
    assert.equal(batch()?.voided, 0, "a GET changes nothing");
    const voided = await operator.browser.submit(`${path}/void`, {}, `${path}/void`);
    assert.match(voided.text, /Vouchers made void: 2\./);
    assert.match(voided.text, /<th scope="row">1<\/th><td>redeemed/);
    assert.match(voided.text, /<th scope="row">3<\/th><td>void/);
    assert.doesNotMatch(voided.text, /Void the rest/);
    assert.match((await redeem(owner, "acme", second)).text, /This code is not valid/);
    const done = (await trail("vouchers.void")).at(-1);
    assert.deepEqual([done?.["before"], done?.["after"]], [{ voided: 0 }, { voided: 2 }]);
    for (const none of ["no-such-batch", "a%20b", "a".repeat(65)]) {
      assert.equal((await operator.browser.get(`${base}/${none}`)).status, 404, none);
    }
  });

  it("is one of fifty a page", async () => {
    const made = world.neighbours.vouchers.handlers.createVouchers;
    const codeHashes = [new Uint8Array(32)];
    for (let index = 0; index < 51; index += 1) {
      const batchId = `batch-${index}-`;
      await made({ $typeName: "billing.v1.CreateVouchersRequest", batchId, amountNanos: 1n, codeHashes, note: "" });
    }
    const first = await operator.browser.get(base);
    assert.match(first.text, /batch-50-</);
    assert.doesNotMatch(first.text, /batch-0-</);
    const next = /rel="next" href="([^"]+)"/.exec(first.text)?.[1]?.replaceAll("&#61;", "=") ?? "";
    const second = await operator.browser.get(next);
    assert.match(second.text, /batch-0-</);
    assert.doesNotMatch(second.text, /Next page/);
  });
});

describe("redeeming a voucher", () => {
  it("puts its money into the account, once, however the code is typed, and the code is in no record", async () => {
    const [code = ""] = codesOn(await make({ amount: "12.50" }));
    const typed = code.toLowerCase().replaceAll("-", " ").replaceAll("0", "o").replaceAll("1", "l");
    const done = await redeem(owner, "acme", typed);
    assert.match(done.text, /role="status">The voucher of 12\.50 USD is booked\. The balance is 12\.50 USD\./);
    checkPage(done, "top-up");
    const { batchId = "" } = batch() ?? {};
    const lines = (await trail("voucher.redeem")).slice(-2);
    assert.deepEqual(
      lines.map(({ outcome, account_id, target, after }) => [outcome, account_id, target, after]),
      [
        ["asked", "acme", "voucher", null],
        [
          "done",
          "acme",
          `line of voucher ${batchId}/1`,
          {
            lineId: `line of voucher ${batchId}/1`,
            voucher: `voucher:${batchId}:1`,
            amountNanos: "12500000000",
            balanceNanos: "12500000000",
          },
        ],
      ],
    );
    assert.match((await redeem(owner, "acme", code)).text, /12\.50 USD is booked\. The balance is 12\.50 USD\./);
    assert.equal(world.neighbours.vouchers.credits.length, 1);
    const records = `${world.logText()}${JSON.stringify(await trail("voucher.redeem"))}`;
    for (const form of [code, code.replaceAll("-", ""), typed]) assert.ok(!records.includes(form));
  });

  it("two browsers at the same instant: one wins, the other is told who has it by now", async () => {
    const [code = ""] = codesOn(await make());
    await owner.browser.get(topUp("acme"));
    await stranger.browser.get(topUp("other"));
    const answers = await Promise.all([
      owner.browser.post(`${topUp("acme")}/voucher`, { code }),
      stranger.browser.post(`${topUp("other")}/voucher`, { code }),
    ]);
    assert.deepEqual(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [303, 422],
    );
    assert.match(answers.map(({ text }) => text).join(""), /has been redeemed already, by another account/);
    assert.equal(world.neighbours.vouchers.credits.length, 1);
  });

  it("that is unknown or void, used or expired is refused in a sentence; what was typed is not sent back", async () => {
    const [used = "", gone = ""] = codesOn(await make({ count: "2" }));
    await redeem(stranger, "other", used);
    await operator.browser.fill(`${base}/${batch()?.batchId}/void`, {});
    const [late = ""] = codesOn(await make({ "last-day": "2199-01-01" }));
    const expired = batch();
    assert.ok(expired?.expiresAt);
    expired.expiresAt.seconds = 1n;
    const unknown = createVoucherCode();
    const sentences: [string, RegExp][] = [
      [unknown, /This code is not valid\./],
      [gone, /This code is not valid\./],
      ["no code", /This code is not valid\./],
      ["", /This code is not valid\./],
      [used, /This voucher has been redeemed already, by another account\./],
      [late, /This voucher has expired: its last day is over\./],
    ];
    for (const [code, sentence] of sentences) {
      const seen = await redeem(owner, "acme", code);
      assert.equal(seen.status, 422, code);
      assert.match(seen.text, sentence);
      if (code !== "") assert.ok(!seen.text.includes(code), "a code is money");
      checkPage(seen, "wrong code");
    }
    const plain = (text: string) => text.replaceAll(/name="csrf" value="[^"]+"/g, "");
    const [ofUnknown, ofVoid] = [await redeem(owner, "acme", unknown), await redeem(owner, "acme", gone)];
    assert.equal(plain(ofUnknown.text), plain(ofVoid.text), "void is as if it had never been");
    const [seen] = world.neighbours.vouchers.credits;
    assert.deepEqual([world.neighbours.vouchers.credits.length, seen?.accountId], [1, "other"]);
    const states = [...world.neighbours.vouchers.vouchers.values()].map(({ voucher }) => voucher.state);
    assert.deepEqual(states, [VoucherState.REDEEMED, VoucherState.VOID, VoucherState.OPEN]);
    assert.equal((await trail("voucher.redeem")).at(-1)?.["outcome"], "failed");
  });

  it("of more than the account can hold is refused, and can be redeemed later", async () => {
    const [first = "", second = ""] = codesOn(await make({ amount: "9007199", count: "2" }));
    await redeem(owner, "acme", first);
    assert.match((await redeem(owner, "acme", second)).text, /The account cannot hold that much more\./);
    assert.match((await redeem(stranger, "other", second)).text, /is booked/);
  });

  it("counts against the guesses of a network address", async () => {
    const app = await world.startReplica({ GUESSES_PER_MINUTE: 3 });
    const browser = world.browser(app);
    for (const [name, value] of owner.browser.cookies) browser.cookies.set(name, value);
    await browser.get(topUp("acme"));
    const statuses: number[] = [];
    for (let count = 0; count < 4; count += 1) {
      statuses.push((await browser.post(`${topUp("acme")}/voucher`, { code: createVoucherCode() })).status);
    }
    assert.deepEqual(statuses, [422, 422, 422, 429]);
  });
});

it("without a payment provider the page is about vouchers only, and nothing else answers", async () => {
  const seen = await owner.browser.get(topUp("acme"));
  assert.equal(seen.title, "Add credits");
  checkPage(seen, "vouchers only");
  assert.match(seen.text, /Redeem a voucher/);
  assert.doesNotMatch(seen.text, /checkout|Latest payments/);
  assert.equal((await owner.browser.post(`${topUp("acme")}/checkout`, { amount: "5" })).status, 404);
  const webhook = await fetch(`http://127.0.0.1:${world.app.httpPort}/payments/stripe/webhook`, {
    method: "POST",
    body: "{}",
    headers: { "content-type": "application/json", "x-forwarded-proto": "https" },
  });
  assert.equal(webhook.status, 404);
  assert.match(seen.headers.get("content-security-policy") ?? "", /form-action 'self'(?:;|$)/);
});
