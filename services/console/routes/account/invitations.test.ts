import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startWorld, type World } from "../../testing/console.ts";
import { idOf, invite, join, password, passwords, setUp, signIn, type TestPerson } from "../../testing/people.ts";

let world: World;
let operator: TestPerson;
let owner: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  for (const accountId of ["acme", "other"]) world.neighbours.addAccount(accountId);
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => world[Symbol.asyncDispose]());

const rolesOf = (email: string) =>
  world.database.sql(
    `SELECT account_id, role FROM console.membership JOIN console.person USING (person_id)
     WHERE email = '${email}' ORDER BY account_id`,
  );

describe("an invitation", () => {
  it("is refused above a hundred that are open, also of requests that come at once", async () => {
    world.neighbours.addAccount("crowded");
    const inviting = await join(world, operator.browser, "crowded", "owner");
    await world.database.sql(
      `INSERT INTO console.invitation (invitation_id, token_hash, email, account_id, role, invited_by, expires_at)
       SELECT gen_random_uuid(), sha256(n::text::bytea), n || '@example.org', 'crowded', 'viewer', person_id,
         now() + interval '1 day'
       FROM (SELECT person_id FROM console.person LIMIT 1) AS p, generate_series(1, 97) AS n`,
    );
    const path = "/accounts/crowded/members";
    await inviting.browser.get(path);
    const asked = Array.from({ length: 12 }, (_, at) =>
      inviting.browser.post(path, { email: `more-${at}@example.org`, role: "viewer" }),
    );
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    assert.deepEqual(statuses.filter((status) => status === 200).length, 3, statuses.join());
    assert.match(
      (await inviting.browser.post(path, { email: "last@example.org", role: "viewer" })).text,
      /At most 100/,
    );
  });

  it("of two who accept it at once, one wins", async () => {
    const link = await invite(owner.browser, "acme", "race@example.org", "developer");
    const replica = await world.startReplica();
    const both = [world.browser(), world.browser(replica), world.browser(), world.browser(replica)];
    for (const browser of both) await browser.get(link);
    const seen = await Promise.all(both.map((browser) => browser.post(link, passwords)));
    const winners = seen.filter(({ location }) => location === "/");
    assert.equal(winners.length, 1, seen.map(({ status, title }) => `${status} ${title}`).join());
    assert.equal(both.filter(({ cookies }) => cookies.has("__Host-session")).length, 1);
    assert.deepEqual(await rolesOf("race@example.org"), [{ account_id: "acme", role: "developer" }]);
  });

  it("works once, not after its end, not when it was taken back, and its link is stored as a hash", async () => {
    const used = await invite(owner.browser, "acme", "once@example.org", "developer");
    await world.browser().fill(used, passwords);
    const late = await invite(owner.browser, "acme", "late@example.org", "developer");
    await world.database.sql(
      "UPDATE console.invitation SET expires_at = now() - interval '1 s' WHERE email = 'late@example.org'",
    );
    const back = await invite(owner.browser, "acme", "back@example.org", "developer");
    const [row] = await world.database.sql(
      "SELECT invitation_id AS id FROM console.invitation WHERE email = 'back@example.org'",
    );
    await owner.browser.get("/accounts/acme/members");
    await owner.browser.post(`/accounts/acme/members/invitations/${String(row?.["id"])}/withdraw`);
    for (const link of [used, late, back, `/invitations/${"A".repeat(43)}`]) {
      const browser = world.browser();
      assert.equal((await browser.get(link)).status, 404);
      await browser.get("/sign-in");
      const seen = await browser.post(link, passwords);
      assert.equal(seen.status, 404);
      assert.equal(seen.title, "Invitation");
      assert.ok(!browser.cookies.has("__Host-session"));
    }
    const rows = await world.database.sql("SELECT i::text AS text FROM console.invitation AS i");
    for (const link of [used, late, back]) {
      const token = link.split("/").at(-1) ?? "";
      assert.ok(rows.every(({ text }) => !String(text).includes(token)));
      assert.ok(!world.logText().includes(token));
    }
  });

  it("of somebody who is known asks to sign in, and gives a second account and a new session token", async () => {
    const known = await join(world, operator.browser, "other", "owner");
    const link = await invite(owner.browser, "acme", known.email, "viewer");
    const stranger = world.browser();
    const page = await stranger.get(link);
    assert.match(page.text, /href="\/sign-in\?next&#61;%2Finvitations%2F[\w-]{43}"/);
    await stranger.get("/sign-in");
    assert.equal(
      (await stranger.post(link, passwords)).status,
      422,
      "a new password does not take the place of theirs",
    );
    const before = known.browser.cookies.get("__Host-session");
    await known.browser.fill(link, {});
    assert.notEqual(known.browser.cookies.get("__Host-session"), before);
    const list = await known.browser.get("/accounts");
    assert.match(list.text, /href="\/accounts\/acme"/);
    assert.match(list.text, /href="\/accounts\/other"/);
    assert.equal((await known.browser.get("/")).location, "/accounts");
    assert.equal((await signIn(world, known.email, password)).cookies.has("__Host-session"), true);
  });

  it("cannot be accepted by somebody else who is signed in", async () => {
    const link = await invite(owner.browser, "acme", "meant@example.org", "owner");
    const other = await join(world, operator.browser, "other", "owner");
    assert.match((await other.browser.get(link)).text, /Sign out, then open the link again/);
    assert.equal((await other.browser.post(link, passwords)).status, 422);
    assert.deepEqual(await rolesOf(other.email), [{ account_id: "other", role: "owner" }]);
  });

  it("leaves the role of somebody who is a member already", async () => {
    const link = await invite(owner.browser, "acme", owner.email, "viewer");
    const page = await owner.browser.submit(link, {});
    assert.equal(page.status, 303);
    assert.match((await owner.browser.get(page.location)).text, /your role stays as it was/);
    assert.deepEqual(await rolesOf(owner.email), [{ account_id: "acme", role: "owner" }]);
  });

  it("makes further operators, when an operator invites them", async () => {
    const link = await invite(operator.browser, "", "second@example.org", "operator");
    const browser = world.browser();
    await browser.fill(link, passwords);
    assert.equal((await browser.get("/")).location, "/operator/accounts");
    assert.equal((await browser.get("/operator/audit")).status, 200);
  });

  it("cannot be for a role that is none, or by whoever does not manage members", async () => {
    await owner.browser.get("/accounts/acme/members");
    for (const role of ["operator", "", "member", "owner,viewer"]) {
      const seen = await owner.browser.post("/accounts/acme/members", { email: "x@example.org", role });
      assert.equal(seen.status, 422, role);
    }
    assert.equal((await world.database.sql("SELECT FROM console.invitation WHERE email = 'x@example.org'")).length, 0);
  });
});

describe("members", () => {
  it("get a new session token when somebody changes their role, which counts at once", async () => {
    const member = await join(world, operator.browser, "acme", "developer");
    const before = member.browser.cookies.get("__Host-session") ?? "";
    await owner.browser.get("/accounts/acme/members");
    await owner.browser.post(`/accounts/acme/members/${member.personId}/role`, { "new-role": "viewer" });
    assert.equal((await member.browser.get("/accounts/acme/keys/new")).status, 403);
    assert.notEqual(member.browser.cookies.get("__Host-session"), before);
    const old = world.browser();
    old.cookies.set("__Host-session", before);
    assert.equal((await old.get("/profile")).status, 303);
    assert.equal((await member.browser.get("/profile")).status, 200);
    await owner.browser.get("/accounts/acme/members");
    const removed = `/accounts/acme/members/${member.personId}/remove`;
    assert.equal((await owner.browser.fill(removed, {})).status, 303);
    assert.equal((await member.browser.get("/accounts/acme")).status, 404);
  });

  it("the last owner can neither be removed nor made anything else; of two who remove each other at once one stays", async () => {
    world.neighbours.addAccount("pair");
    const first = await join(world, operator.browser, "pair", "owner");
    await first.browser.get("/accounts/pair/members");
    const self = `/accounts/pair/members/${first.personId}`;
    assert.match((await first.browser.submit("/accounts/pair/members", {}, `${self}/remove`)).text, /needs an owner/);
    const demote = await first.browser.submit("/accounts/pair/members", { "new-role": "developer" }, `${self}/role`);
    assert.match(demote.text, /needs an owner/);
    const second = await join(world, operator.browser, "pair", "owner");
    for (const { browser } of [first, second]) await browser.get("/accounts/pair/members");
    await Promise.all([
      first.browser.post(`/accounts/pair/members/${second.personId}/remove`),
      second.browser.post(`${self}/remove`),
    ]);
    const owners = await world.database.sql("SELECT role FROM console.membership WHERE account_id = 'pair'");
    assert.deepEqual(owners, [{ role: "owner" }]);
  });

  it("every change of them is in the audit log, with the role before and after", async () => {
    const member = await join(world, operator.browser, "acme", "developer");
    await owner.browser.get("/accounts/acme/members");
    await owner.browser.post(`/accounts/acme/members/${member.personId}/role`, { "new-role": "owner" });
    const [line] = await world.database.sql(
      `SELECT person_id, email, address, outcome, account_id, before, after FROM console.audit_entry
       WHERE action = 'member.role' AND target = '${member.personId}'`,
    );
    assert.deepEqual(line, {
      person_id: await idOf(world, owner.email),
      email: owner.email,
      address: owner.browser.address,
      outcome: "done",
      account_id: "acme",
      before: { role: "developer" },
      after: { role: "owner" },
    });
  });
});
