import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { AccountStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, password, setUp, signIn, type TestPerson } from "../../testing/people.ts";

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
});
after(() => world[Symbol.asyncDispose]());

const base = "/operator/accounts";
const trail = (target: string) =>
  world.database.sql(
    `SELECT action, outcome, before, after FROM console.audit_entry WHERE target = '${target}' ORDER BY audit_id`,
  );

describe("an account", () => {
  it("is made, listed, changed, suspended and activated; each in the audit log with values before and after", async () => {
    const { browser } = operator;
    await browser.submit(`${base}/new`, { name: "First", rate: "60", id: "first" });
    const taken = await browser.fill(`${base}/new`, { name: "Second", rate: "0", id: "first" });
    assert.equal(taken.status, 422);
    assert.match(taken.text, /There is an account with this id/);
    const wrongRates = [{ rate: "-1" }, { rate: "1000001" }, { rate: "1.5" }];
    for (const wrong of [{ name: "" }, ...wrongRates, { concurrency: "100001" }, { concurrency: "x" }, { id: "a b" }]) {
      assert.equal((await browser.fill(`${base}/new`, { name: "n", rate: "0", ...wrong })).status, 422);
    }
    assert.match((await browser.get(base)).text, /<a href="\/operator\/accounts\/first">First<\/a>/);
    await browser.get(`${base}/first`);
    await browser.post(`${base}/first`, { name: "Renamed", rate: "120", concurrency: "7" });
    await browser.post(`${base}/first/suspend`);
    assert.equal(world.neighbours.accounts.get("first")?.status, AccountStatus.SUSPENDED);
    assert.match((await browser.get(`${base}/first`)).text, /suspended/);
    await browser.post(`${base}/first/activate`);
    const done = (await trail("first")).filter(({ outcome }) => outcome === "done");
    const first = { name: "First", requestsPerMinute: 60, maxConcurrent: 0 };
    assert.deepEqual(
      done.map(({ action, before: earlier, after: later }) => [action, earlier, later]),
      [
        ["account.create", null, first],
        ["account.change", first, { name: "Renamed", requestsPerMinute: 120, maxConcurrent: 7 }],
        ["account.suspend", { status: "active" }, { status: "suspended" }],
        ["account.activate", { status: "suspended" }, { status: "active" }],
      ],
    );
    const failed = (await trail("first")).filter(({ outcome }) => outcome === "failed");
    assert.equal(failed.length, 1, "the second of the same id");
    assert.equal((await browser.get(`${base}/none`)).status, 404);
    assert.equal((await browser.get(`${base}/a%20b`)).status, 404);
  });

  it("is credited once for a payment id, and the amount is exact", async () => {
    world.neighbours.addAccount("paid");
    const { browser } = operator;
    const fields = { credit: "10.000000001", payment: "bank-7", note: "transfer" };
    for (let count = 0; count < 2; count += 1) {
      await browser.get(`${base}/paid`);
      assert.equal((await browser.post(`${base}/paid/credit`, fields)).location, `${base}/paid`);
    }
    assert.equal(world.neighbours.balances.get("paid"), 10_000_000_001n);
    const other = await browser.post(`${base}/paid/credit`, { ...fields, credit: "11" });
    assert.equal(other.status, 422);
    assert.match(other.text, /This payment id was booked with another amount/);
    const [, done] = await trail("bank-7");
    assert.deepEqual(done, {
      action: "account.credit",
      outcome: "done",
      before: { balanceNanos: "0" },
      after: {
        amountNanos: "10000000001",
        words: "transfer",
        balanceNanos: "10000000001",
        lineId: "line of payment bank-7",
      },
    });
    for (const wrong of [
      { credit: "0" },
      { credit: "-1" },
      { credit: "x" },
      { payment: "" },
      { note: "a".repeat(501) },
    ]) {
      assert.equal((await browser.post(`${base}/paid/credit`, { ...fields, payment: "n", ...wrong })).status, 422);
    }
    assert.equal((await browser.post(`${base}/none/credit`, fields)).status, 404);
    assert.equal(world.neighbours.balances.get("paid"), 10_000_000_001n);
  });

  it("is corrected with a reason, once for a form that is sent twice", async () => {
    world.neighbours.addAccount("corrected");
    const { browser } = operator;
    const page = await browser.get(`${base}/corrected`);
    const id = /name="correction-id" value="([^"]+)"/.exec(page.text)?.[1] ?? "";
    const fields = { correction: "-2.5", reason: "agreed", "correction-id": id };
    await browser.post(`${base}/corrected/correct`, fields);
    await browser.post(`${base}/corrected/correct`, fields);
    assert.equal(world.neighbours.balances.get("corrected"), -2_500_000_000n);
    for (const wrong of [{ correction: "0" }, { reason: "" }, { "correction-id": "" }, { "corrected-rid": "call" }]) {
      assert.equal((await browser.post(`${base}/corrected/correct`, { ...fields, ...wrong })).status, 422);
    }
    const other = await browser.post(`${base}/corrected/correct`, { ...fields, correction: "-3" });
    assert.match(other.text, /sent before with other content/);
    const rid = createRid();
    await browser.post(`${base}/corrected/correct`, { ...fields, "correction-id": "of a call", "corrected-rid": rid });
    const asked = world.neighbours.received.findLast(({ method }) => method === "correct")?.request;
    assert.deepEqual({ ...asked }, { ...asked, rid, correctionId: "of a call" });
  });

  it("gets a call's charge back, all that is left or a part, once for a form that is sent twice", async () => {
    world.neighbours.addAccount("refunded");
    const rid = createRid();
    world.neighbours.operators.refundable.set(rid, 3_000_000_000n);
    const { browser } = operator;
    const path = `${base}/refunded`;
    const formId = async () => /name="refund-id" value="([^"]+)"/.exec((await browser.get(path)).text)?.[1] ?? "";
    const first = { rid: rid.toUpperCase(), refund: "1", "refund-reason": "agreed", "refund-id": await formId() };
    await browser.post(`${path}/refund`, first);
    await browser.post(`${path}/refund`, first);
    assert.equal(world.neighbours.balances.get("refunded"), 1_000_000_000n);
    const rest = { ...first, refund: "", "refund-id": await formId() };
    assert.notEqual(rest["refund-id"], first["refund-id"]);
    assert.match(
      (await browser.submit(path, rest, `${path}/refund`)).text,
      /Booked 2\.00 USD\. The balance is 3\.00 USD/,
    );
    const [asked, done] = await trail(rest["refund-id"]);
    const wanted = { amountNanos: "0", words: "agreed", rid };
    assert.deepEqual([asked?.["action"], asked?.["after"]], ["account.refund", wanted]);
    const lineId = `line of refund ${rest["refund-id"]}`;
    assert.deepEqual(done?.["after"], { ...wanted, amountNanos: "2000000000", balanceNanos: "3000000000", lineId });
    const none = await browser.fill(path, {});
    assert.equal(none.status, 422);
    const another = { ...rest, "refund-id": await formId() };
    assert.match((await browser.post(`${path}/refund`, another)).text, /So much is not left to refund/);
    assert.match(
      (await browser.post(`${path}/refund`, { ...first, refund: "2" })).text,
      /sent before with other content/,
    );
    for (const wrong of [
      { rid: "x" },
      { refund: "0" },
      { refund: "-1" },
      { "refund-reason": "" },
      { "refund-id": "" },
    ]) {
      const seen = await browser.post(`${path}/refund`, { ...another, ...wrong });
      assert.equal(seen.status, 422, JSON.stringify(wrong));
    }
    assert.equal(world.neighbours.balances.get("refunded"), 3_000_000_000n);
  });

  it("is found by a part of its id or name, and in the view of those below zero, the lowest first", async () => {
    world.neighbours.addAccount("deep", `<b>Deep</b>`);
    world.neighbours.addAccount("low", "Low one");
    world.neighbours.balances.set("deep", -9_000_000_000n).set("low", -1n).set("not-known", -2n);
    const { browser } = operator;
    const found = await browser.get(`${base}?q=low%20ONE`);
    checkPage(found, "found");
    assert.match(found.text, /<a href="\/operator\/accounts\/low">Low one<\/a>/);
    assert.doesNotMatch(found.text, /accounts\/deep/);
    assert.match(
      (await browser.get(`${base}?q=${encodeURIComponent("<b>none")}`)).text,
      /“&#60;b&#62;none” in id or name: none/,
    );
    const negative = await browser.get(`${base}?view=negative`);
    checkPage(negative, "negative");
    const below = [...world.neighbours.balances.values()].filter((balanceNanos) => balanceNanos < 0n).length;
    assert.match(negative.text, new RegExp(`<p>${below} accounts are below zero`));
    assert.match(negative.text, /&#60;b&#62;Deep.*-9\.00 USD.*unknown<\/th><td>not-known.*Low one.*-0\.000000001 USD/);
    assert.doesNotMatch(negative.text, /accounts\/refunded/);
    for (const accountId of ["deep", "low", "not-known"]) world.neighbours.balances.delete(accountId);
  });

  it("keeps what the other forms of its page show when one of them was not right", async () => {
    world.neighbours.addAccount("kept", "Kept name");
    await operator.browser.get(`${base}/kept`);
    const wrong = await operator.browser.post(`${base}/kept/credit`, { credit: "1,5", payment: "p", note: "" });
    assert.equal(wrong.status, 422);
    assert.match(wrong.text, /name="credit"[^>]* value="1,5"/);
    assert.match(wrong.text, /name="name"[^>]* value="Kept name"/);
    assert.match(wrong.text, /name="rate"[^>]* value="0"/);
  });

  it("says so at the amount when it would leave what an account may hold", async () => {
    world.neighbours.addAccount("full");
    world.neighbours.balances.set("full", 9_007_199_000_000_000n);
    const { browser } = operator;
    const page = await browser.get(`${base}/full`);
    const id = /name="correction-id" value="([^"]+)"/.exec(page.text)?.[1] ?? "";
    const seen = [
      await browser.post(`${base}/full/credit`, { credit: "1", payment: "p-full", note: "" }),
      await browser.post(`${base}/full/correct`, { correction: "1", reason: "r", "correction-id": id }),
    ];
    for (const { status, text } of seen) {
      assert.equal(status, 422);
      assert.match(text, /<a href="#(credit|correction)">The balance would be further from 0 than an account may be/);
    }
    assert.equal(world.neighbours.balances.get("full"), 9_007_199_000_000_000n);
  });

  it("is not credited under an id that only vouchers have", async () => {
    await operator.browser.get(`${base}/full`);
    const seen = await operator.browser.post(`${base}/full/credit`, { credit: "1", payment: "voucher:1", note: "" });
    assert.equal(seen.status, 422);
    assert.match(seen.text, /Only vouchers have such ids/);
  });

  it("is shown with its keys, what is held for it, and the way to what its people see", async () => {
    world.neighbours.addAccount("shown");
    world.neighbours.addKey("shown", "one");
    const { text } = await operator.browser.get(`${base}/shown`);
    assert.match(text, /<dt>Keys<\/dt><dd>1 active of 1<\/dd>/);
    assert.match(text, /<dt>Held for running calls<\/dt><dd><data[^>]*>[^<]+<\/data>in 2 calls<\/dd>/);
    for (const below of ["", "/usage", "/ledger", "/keys"])
      assert.ok(text.includes(`href="/accounts/shown${below}"`), below);
  });
});

describe("people", () => {
  it("are stopped at once and activated again, but nobody can stop oneself", async () => {
    world.neighbours.addAccount("acme");
    const somebody = await join(world, operator.browser, "acme", "owner");
    const path = `/operator/people/${somebody.personId}`;
    await operator.browser.get("/operator/people");
    await operator.browser.post(`${path}/stop`);
    assert.equal((await somebody.browser.get("/profile")).status, 303);
    assert.ok(!(await signIn(world, somebody.email)).cookies.has("__Host-session"));
    await operator.browser.post(`${path}/activate`);
    assert.ok((await signIn(world, somebody.email)).cookies.has("__Host-session"));
    const self = await operator.browser.post(`/operator/people/${operator.personId}/stop`);
    assert.equal(self.status, 409);
    assert.equal((await operator.browser.get("/operator/people")).status, 200);
  });
});

describe("one's own password and sessions", () => {
  it("changing the password takes the current one, ends other sessions and renews this one", async () => {
    const somebody = await join(world, operator.browser, "acme", "owner");
    const { browser, email } = somebody;
    const other = await signIn(world, email);
    const before = browser.cookies.get("__Host-session");
    const fresh = "another fine long password";
    const fields = { "new-password": fresh, "repeat-password": fresh, password };
    const path = "/profile/password";
    const wrong = [{ password: "not my password" }, { "repeat-password": "x" }, { "new-password": "short" }];
    for (const change of [...wrong, { "new-password": email, "repeat-password": email }]) {
      assert.equal((await browser.fill(path, { ...fields, ...change })).status, 422, JSON.stringify(change));
    }
    assert.equal((await other.get("/profile")).status, 200);
    const done = await browser.submit(path, fields);
    assert.match(done.text, /Your password is changed/);
    assert.notEqual(browser.cookies.get("__Host-session"), before);
    assert.equal((await other.get("/profile")).status, 303);
    assert.ok(!(await signIn(world, email)).cookies.has("__Host-session"), "the old one");
    assert.ok((await signIn(world, email, fresh)).cookies.has("__Host-session"));
  });

  it("a session can be ended from another one, or all others at once", async () => {
    const somebody = await join(world, operator.browser, "acme", "owner");
    const others = [await signIn(world, somebody.email), await signIn(world, somebody.email)];
    const list = await somebody.browser.get("/profile/sessions");
    const ends = [...list.text.matchAll(/action="(\/profile\/sessions\/[0-9a-f-]{36}\/end)"/g)].map(
      (match) => match[1],
    );
    assert.equal(ends.length, 2);
    assert.match(list.text, /this session/);
    await somebody.browser.post(ends[0] ?? "");
    const left = await Promise.all(others.map(async (browser) => (await browser.get("/profile")).status));
    assert.deepEqual(
      left.toSorted((a, b) => a - b),
      [200, 303],
    );
    await somebody.browser.post("/profile/sessions/end-others");
    for (const browser of others) assert.equal((await browser.get("/profile")).status, 303);
    assert.equal((await somebody.browser.get("/profile")).status, 200);
    assert.equal((await somebody.browser.post(`/profile/sessions/nonsense/end`)).status, 404);
  });

  it("wrong passwords in the profile lock as they do at the sign-in", async () => {
    const somebody = await join(world, operator.browser, "acme", "owner");
    const fields = { "new-password": "another fine password", "repeat-password": "another fine password" };
    await somebody.browser.get("/profile/password");
    for (let count = 0; count < 10; count += 1) {
      await somebody.browser.post("/profile/password", { ...fields, password: "guess" });
    }
    assert.equal((await somebody.browser.post("/profile/password", { ...fields, password })).status, 422);
  });
});

describe("the audit log", () => {
  it("is filtered by person, account, action and day, and paged", async () => {
    const { browser } = operator;
    const rows = async (query: string) => {
      const { text } = await browser.get(`/operator/audit?${query}`);
      return [...text.matchAll(/<tr><th scope="row"><time/g)].length;
    };
    const total = await world.database.sql("SELECT count(*)::int AS count FROM console.audit_entry");
    assert.ok(Number(total[0]?.["count"]) > 10);
    assert.ok((await rows("account=paid")) > 0);
    assert.equal(await rows("account=paid&action=account.credit&email=operator%40example.org"), 6);
    assert.equal(await rows("account=paid&action=key.create"), 0);
    assert.equal(await rows("email=nobody%40example.org"), 0);
    const today = new Date().toISOString().slice(0, 10);
    assert.ok((await rows(`from=${today}&until=${today}`)) > 0);
    assert.equal(await rows("until=2020-01-01"), 0);
    assert.equal(await rows("from=2199-01-01"), 0);
    await world.database.sql(
      `INSERT INTO console.audit_entry (operation_id, outcome, email, address, action, target)
       SELECT gen_random_uuid(), 'done', 'many@example.org', '::1', 'sign-in', n::text
       FROM generate_series(1, 51) AS n`,
    );
    const first = await browser.get("/operator/audit?email=many%40example.org");
    const next = /rel="next" href="([^"]+)"/.exec(first.text)?.[1]?.replaceAll("&#61;", "=").replaceAll("&#38;", "&");
    const second = await browser.get(next ?? "");
    assert.equal([...second.text.matchAll(/<tr><th scope="row"><time/g)].length, 1);
    assert.match(second.text, /<td>1<\/td>/);
  });
});
