import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { LimitPeriod } from "#proto/authquota/v1/authquota_pb.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

let world: World;
let owner: TestPerson;
let reader: TestPerson;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
  reader = await join(world, operator.browser, "acme", "viewer");
});
after(() => world[Symbol.asyncDispose]());

const path = "/accounts/acme/budget";
const account = () => world.neighbours.accounts.get("acme");

describe("the budget of an account", () => {
  it("is set for each month, says what is left of it, and is in the audit log", async () => {
    world.neighbours.spent.set("acme", 40_000_000_000n);
    const sent = await owner.browser.fill(path, { limit: "12.50", "limit-period": "month" });
    assert.equal(sent.location, path);
    assert.deepEqual([account()?.limitNanos, account()?.limitPeriod], [12_500_000_000n, LimitPeriod.MONTH]);
    Object.assign(account() ?? {}, { spentBeforeNanos: 30_000_000_000n });
    const seen = await owner.browser.get(path);
    checkPage(seen, path);
    assert.match(seen.text, /\$12\.50<\/data>each month<small>.*\$2\.50<\/data>left/s);
    assert.match(seen.text, /Spent this month/);
    const [entry] = await world.database.sql(
      "SELECT before, after FROM console.audit_entry WHERE action = 'budget.change' AND outcome = 'asked'",
    );
    assert.deepEqual(entry?.["after"], { limitNanos: "12500000000", limitPeriod: "month" });
  });

  it("leaves nothing rather than less, is shown to readers without a form, and can be taken away", async () => {
    world.neighbours.spent.set("acme", 99_000_000_000n);
    const { text } = await reader.browser.get(path);
    assert.match(text, /\$0\.00<\/data>left/);
    assert.doesNotMatch(text, /Save budget/);
    assert.equal((await owner.browser.fill(path, { limit: "", "limit-period": "" })).status, 303);
    assert.equal(account()?.limitNanos, undefined);
    assert.match((await owner.browser.get(path)).text, /<dd>none<\/dd>/);
  });

  it("is refused where it says nothing that can be kept", async () => {
    for (const fields of [
      { limit: "", "limit-period": "day" },
      { limit: "1", "limit-period": "year" },
      { limit: "much", "limit-period": "" },
    ]) {
      const seen = await owner.browser.fill(path, fields);
      assert.equal(seen.status, 422, JSON.stringify(fields));
      checkPage(seen, path);
    }
    assert.equal(account()?.limitNanos, undefined);
  });
});
