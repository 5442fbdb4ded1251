import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

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

const key = (name: string) => ({ name, "last-day": "", limit: "", "limit-period": "", models: "" });

it("owners see what was done in their account, by whom of it, and nothing of another's or of operators' addresses", async () => {
  await owner.browser.fill("/accounts/acme/keys/new", key("Ours"));
  await stranger.browser.fill("/accounts/other/keys/new", key("Theirs"));
  const seen = await owner.browser.get("/accounts/acme/audit");
  checkPage(seen, "audit");
  assert.match(seen.text, new RegExp(`<td>${owner.email}</td><td>key\\.create</td>`));
  assert.match(seen.text, /name: Ours/);
  assert.match(seen.text, /<td>an operator, or a former member<\/td><td>invitation\.create<\/td>/);
  assert.ok(!seen.text.includes("Theirs") && !seen.text.includes(operator.email));
  const keys = await owner.browser.get("/accounts/acme/audit?action=key.create");
  assert.doesNotMatch(keys.text, /<td>invitation\.create<\/td>/);
  assert.equal((await stranger.browser.get("/accounts/acme/audit")).status, 404);
});
