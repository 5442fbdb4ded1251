import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { ensureBootstrap } from "./bootstrap.ts";
import { startWorld, type World } from "../testing/console.ts";
import { invite, passwords, setUp } from "../testing/people.ts";

let world: World;

before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

const printed = (): number => world.logText().split("bootstrapToken").length - 1;

it("the first start prints a token once, whatever starts beside and after it, and keeps only its hash", async () => {
  await Promise.all([world.startReplica(), world.startReplica()]);
  assert.equal(printed(), 1);
  const rows = await world.database.sql(
    "SELECT b::text AS text, octet_length(token_hash) AS size FROM console.bootstrap_token AS b",
  );
  assert.equal(rows.length, 1);
  assert.equal(rows[0]?.["size"], 32);
  assert.ok(!String(rows[0]?.["text"]).includes(world.bootstrapToken()));
});

it("no token is made where it could not be printed", async () => {
  await world.database.sql("UPDATE console.bootstrap_token SET expires_at = now()");
  const [before] = await world.database.sql("SELECT token_hash FROM console.bootstrap_token");
  await ensureBootstrap(world.database.pool, createLog("console", "error", { write: () => undefined }));
  assert.deepEqual((await world.database.sql("SELECT token_hash FROM console.bootstrap_token"))[0], before);
  await world.database.sql("UPDATE console.bootstrap_token SET expires_at = now() + interval '1 h'");
});

it("a wrong token, an address that is none, and two passwords that differ make nobody an operator", async () => {
  const right = { token: world.bootstrapToken(), email: "a@example.org", ...passwords };
  const wrong = [{ token: "A".repeat(43) }, { token: "" }, { email: "nobody" }, { "repeat-password": "other" }];
  for (const change of wrong) {
    const browser = world.browser();
    assert.equal((await browser.fill("/setup", { ...right, ...change })).status, 422, JSON.stringify(change));
    assert.ok(!browser.cookies.has("__Host-session"));
  }
  assert.deepEqual(await world.database.sql("SELECT FROM console.person"), []);
});

it("of several who use the token at once, one becomes the operator; then the page is gone for ever", async () => {
  const replica = await world.startReplica();
  const browsers = [world.browser(), world.browser(replica), world.browser(), world.browser(replica)];
  for (const browser of browsers) await browser.get("/setup");
  const seen = await Promise.all(
    browsers.map((browser, index) =>
      browser.post("/setup", { token: world.bootstrapToken(), email: `operator-${index}@example.org`, ...passwords }),
    ),
  );
  assert.deepEqual(seen.filter(({ status }) => status === 303).length, 1);
  const people = await world.database.sql("SELECT email, is_operator FROM console.person");
  assert.equal(people.length, 1);
  assert.equal(people[0]?.["is_operator"], true);
  assert.equal((await world.browser().get("/setup")).status, 404);
  const late = world.browser();
  await late.get("/sign-in");
  assert.equal(
    (await late.post("/setup", { token: world.bootstrapToken(), email: "b@example.org", ...passwords })).status,
    404,
  );
  await world.startReplica();
  assert.equal(printed(), 1);
  const noted = await world.database.sql(
    "SELECT email, outcome FROM console.audit_entry WHERE action = 'person.bootstrap'",
  );
  assert.deepEqual(noted, [{ email: people[0]?.["email"], outcome: "done" }]);
});

it("a token that was not used in a day is of no use, and the next start prints another one", async () => {
  await using fresh = await startWorld();
  await fresh.database.sql("UPDATE console.bootstrap_token SET expires_at = now() - interval '1 s'");
  assert.equal((await fresh.browser().get("/setup")).status, 404);
  const old = fresh.bootstrapToken();
  await fresh.startReplica();
  const tokens = [...fresh.logText().matchAll(/"bootstrapToken":"([\w-]+)"/g)].map((match) => match[1]);
  assert.equal(tokens.length, 2);
  const seen = await fresh.browser().fill("/setup", { token: old, email: "late@example.org", ...passwords });
  assert.equal(seen.status, 422);
  const done = await fresh
    .browser()
    .fill("/setup", { token: tokens[1] ?? "", email: "late@example.org", ...passwords });
  assert.equal(done.status, 303);
});

it("the first operator owns the account that the console is told of, and no later one does", async () => {
  await using local = await startWorld({ BOOTSTRAP_ACCOUNT: "acct_local" });
  local.neighbours.addAccount("acct_local");
  const first = await setUp(local);
  for (const path of ["/playground", "/keys/new", "/top-up"]) {
    assert.equal((await first.browser.get(`/accounts/acct_local${path}`)).status, 200, path);
  }
  const { browser } = local;
  const second = browser();
  const link = await invite(first.browser, "", "second@example.org", "operator");
  assert.equal((await second.fill(link, passwords)).status, 303);
  assert.equal((await second.get("/accounts/acct_local/playground")).status, 403);
  const members = await local.database.sql("SELECT account_id, role, person_id FROM console.membership");
  assert.deepEqual(members, [{ account_id: "acct_local", role: "owner", person_id: first.personId }]);
  const noted = "SELECT after ->> 'owns' AS owns FROM console.audit_entry WHERE action = 'person.bootstrap'";
  assert.deepEqual(await local.database.sql(noted), [{ owns: "acct_local" }]);
});

it("the first operator owns nothing where the console is told of no account", async () => {
  await using other = await startWorld();
  other.neighbours.addAccount("acct_local");
  const { browser } = await setUp(other);
  assert.deepEqual(await other.database.sql("SELECT FROM console.membership"), []);
  assert.equal((await browser.get("/accounts/acct_local/playground")).status, 403);
});
