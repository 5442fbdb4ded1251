import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startWorld, type World } from "../testing/console.ts";
import { enrol, inviteOperator, join, passwords, setUp, type TestPerson } from "../testing/people.ts";

const path = "/profile/second-factor";
const reminder = /Set up a second factor/;

describe("a second factor that nobody demands", () => {
  let world: World;
  let operator: TestPerson;
  before(async () => {
    world = await startWorld();
    world.neighbours.addAccount("acme");
    operator = await setUp(world);
  });
  after(() => world[Symbol.asyncDispose]());

  it("is offered to the first operator, who may put it off, also while it is being set up", async () => {
    const { browser } = operator;
    assert.match((await browser.get(path)).text, /<a href="\/">Later<\/a>/);
    assert.equal((await browser.get("/")).location, "/operator/accounts");
    assert.equal((await browser.get("/operator/accounts")).status, 200);
    const pending = await browser.submit(path, {}, `${path}/begin`);
    assert.match(pending.text, /<svg class="qr"/);
    assert.match(pending.text, /<a href="\/">Later<\/a>/);
  });

  it("is remembered to operators on every page but its own, until it is set up, and to nobody else", async () => {
    const { browser } = operator;
    for (const page of ["/operator/accounts", "/operator/search", "/accounts/acme", "/profile/password"]) {
      assert.match((await browser.get(page)).text, reminder, page);
    }
    assert.doesNotMatch((await browser.get(path)).text, reminder);
    const owner = await join(world, browser, "acme", "owner");
    assert.doesNotMatch((await owner.browser.get("/accounts/acme")).text, reminder);
    assert.match((await owner.browser.get("/profile")).text, reminder);
    await enrol(world, browser);
    for (const page of ["/operator/accounts", "/profile"])
      assert.doesNotMatch((await browser.get(page)).text, reminder);
    assert.doesNotMatch((await browser.get(path)).text, /Later/);
  });
});

describe("a second factor that is demanded of operators", () => {
  let world: World;
  let operator: TestPerson;
  let code: () => string;
  before(async () => {
    world = await startWorld({ SECOND_FACTOR_REQUIRED_OF: "operators" });
    for (const account of ["acme", "other"]) world.neighbours.addAccount(account);
    operator = await setUp(world);
  });
  after(() => world[Symbol.asyncDispose]());

  it("comes before everything that an operator may do as one, and cannot be put off", async () => {
    const { browser } = operator;
    for (const page of ["/operator/accounts", "/operator/people", "/accounts/acme", "/accounts/no-such-account"]) {
      assert.equal((await browser.get(page)).location, path, page);
    }
    const shown = await browser.get(path);
    assert.match(shown.text, /Operators of this console need a second factor/);
    assert.doesNotMatch(shown.text, /Later/);
    assert.equal((await browser.post("/operator/accounts/new", { name: "Mine" })).location, path);
    assert.equal((await browser.get("/profile")).status, 200);
    ({ code } = await enrol(world, browser));
    assert.equal((await browser.get("/operator/accounts")).status, 200);
  });

  it("is not demanded of others, nor of an operator for what a role in an account allows", async () => {
    const { browser } = operator;
    const owner = await join(world, browser, "acme", "owner");
    assert.equal((await owner.browser.get("/accounts/acme/keys/new")).status, 200);
    const second = world.browser();
    const link = await inviteOperator(browser, "second@example.org", { code: code() });
    assert.equal((await second.fill(link, passwords)).status, 303);
    assert.equal((await second.get("/accounts/acme")).location, path);
    await world.database.sql(`INSERT INTO console.membership (person_id, account_id, role)
      SELECT person_id, 'acme', 'viewer' FROM console.person WHERE email = 'second@example.org'`);
    assert.equal((await second.get("/accounts/acme")).status, 200);
    assert.equal((await second.get("/accounts/acme/keys/new")).status, 403, "no operator may do that");
    assert.equal((await second.get("/accounts/other")).location, path);
  });

  it("is demanded again of an operator who removes it", async () => {
    const { browser } = operator;
    await world.database.sql(`UPDATE console.person SET totp_secret = NULL WHERE email = '${operator.email}'`);
    assert.equal((await browser.get("/operator/accounts")).location, path);
  });
});
