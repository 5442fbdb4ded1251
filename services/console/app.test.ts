import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startWorld, type World } from "./testing/console.ts";
import { join, password, setUp, type TestPerson } from "./testing/people.ts";

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.neighbours.addAccount("acme", "Acme & Sons");
});
after(() => world[Symbol.asyncDispose]());

describe("the way of an account", () => {
  it("API spec, What the service does: 5. Balance, top-up and per-key spending limits are managed in a web console; API spec, Authentication: 9. Keys, balance and spending limits are managed in the console; API spec, Resources and their fields: **API key.** A credential created in the console", async () => {
    const made = await operator.browser.submit("/operator/accounts/new", { name: "Way", rate: "0", id: "way" });
    assert.equal(made.title, "Way");
    assert.match(made.text, /The account Way is made/);
    const paid = await operator.browser.submit(
      "/operator/accounts/way",
      { credit: "100.000000001", payment: "p-1", note: "by bank" },
      "/operator/accounts/way/credit",
    );
    assert.match(paid.text, /Booked 100\.000000001 USD\. The balance is 100\.000000001 USD\./);
    const owner = await join(world, operator.browser, "way", "owner");
    const start = await owner.browser.get("/");
    assert.equal(start.location, "/accounts/way");
    const overview = await owner.browser.get("/accounts/way");
    assert.equal(overview.title, "Way");
    assert.match(overview.text, /100\.000000001 USD/);
    assert.match(overview.text, /0 active of 0/);
    const key = await owner.browser.fill("/accounts/way/keys/new", {
      name: "first",
      "last-day": "",
      limit: "2.5",
      models: "",
    });
    assert.equal(key.status, 200);
    assert.match(key.text, /secret-of-key_/);
    assert.match((await owner.browser.get("/accounts/way/keys")).text, /2\.50? USD/);
  });
});

describe("sign-in and sign-out", () => {
  it("leads to the page that was asked for, and out again", async () => {
    const browser = world.browser();
    const asked = await browser.get("/accounts");
    assert.equal(asked.location, "/sign-in?next=%2Faccounts");
    const page = await browser.get(asked.location);
    assert.equal(page.title, "Sign in");
    assert.match(page.text, /name="next" value="\/accounts"/);
    const done = await browser.post("/sign-in", {
      email: "Operator@Example.org",
      password,
      next: "/accounts",
    });
    assert.equal(done.location, "/accounts");
    assert.equal((await browser.get("/accounts")).status, 200);
    const out = await browser.post("/sign-out");
    assert.equal(out.location, "/sign-in?note=signed-out");
    assert.match((await browser.get(out.location)).text, /You are signed out/);
    assert.equal((await browser.get("/accounts")).location, "/sign-in?next=%2Faccounts");
  });
});
