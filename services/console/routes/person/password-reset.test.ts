import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Secret, TOTP } from "otpauth";
import { inTransaction } from "#shared/stores/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { endResets } from "../../store/password-resets.ts";
import { lockPerson, setPasswordHash } from "../../store/people.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { idOf, invite, join, password, passwords, setUp, signIn, type TestPerson } from "../../testing/people.ts";

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.neighbours.addAccount("acme");
});
after(() => world[Symbol.asyncDispose]());

const session = "__Host-session";
const newPassword = "staple battery horse correct";
const newPasswords = { "new-password": newPassword, "repeat-password": newPassword };
const someone = (): Promise<TestPerson> => join(world, operator.browser, "acme", "owner");

/** Has a link made; tells its path. */
async function makeLink({ personId }: Pick<TestPerson, "personId">, by = operator.browser): Promise<string> {
  const path = `/operator/people/${personId}/password-reset`;
  const made = await by.fill(path, { password });
  assert.equal(made.title, "Link for a new password", made.text);
  checkPage(made, "the link");
  return /https:\/\/console\.example(\/password-resets\/[\w-]{43})/.exec(made.text)?.[1] ?? "";
}

const canSignIn = async (email: string, given: string): Promise<boolean> =>
  (await (await signIn(world, email, given)).get("/profile")).status === 200;

/** Until a request waits for a row that the test has locked. */
const untilOneWaits = () =>
  until("a request waits for a lock", async () => {
    return (await world.database.sql("SELECT FROM pg_locks WHERE NOT granted")).length > 0;
  });

describe("a link for a new password", () => {
  it("sets the password once, and ends all sessions and links to other sign-ins", async () => {
    const { email, browser, personId } = await someone();
    await world.database.sql(
      `INSERT INTO console.identity (issuer, subject, person_id) VALUES ('https://id.example', 'one', '${personId}')`,
    );
    const link = await makeLink({ personId });
    assert.equal((await browser.get("/profile")).status, 200, "nothing ends before it is used");
    const fresh = world.browser();
    const page = await fresh.get(link);
    checkPage(page, "new password");
    assert.match(page.text, new RegExp(`${email}\\. operator@example\\.org has made this link`));
    const wrong = await fresh.post(link, { "new-password": "short", "repeat-password": "short" });
    assert.equal(wrong.status, 422);
    const done = await fresh.post(link, newPasswords);
    assert.equal(done.location, "/sign-in?note=password-reset");
    assert.match((await fresh.get(done.location)).text, /role="status">Your new password is set/);
    assert.ok(!fresh.cookies.has(session), "the link alone signs nobody in");
    assert.equal((await browser.get("/profile")).status, 303);
    assert.equal(await canSignIn(email, password), false);
    assert.equal(await canSignIn(email, newPassword), true);
    const identities = await world.database.sql(`SELECT FROM console.identity WHERE person_id = '${personId}'`);
    assert.deepEqual(identities, []);
    for (const again of [await fresh.get(link), await fresh.post(link, passwords)]) assert.equal(again.status, 404);
  });

  it("is noted when it is made and when it is used, and tells its person who made it", async () => {
    const { email, personId } = await someone();
    const link = await makeLink({ personId });
    await world.browser().fill(link, newPasswords);
    const lines = await world.database.sql(
      `SELECT email, before, after FROM console.audit_entry
       WHERE action = 'password.reset' AND target = '${personId}' ORDER BY audit_id`,
    );
    assert.deepEqual(
      lines.map((line) => ({ ...line })),
      [
        { email: operator.email, before: null, after: { email, link: "made" } },
        { email, before: null, after: { email, link: "used", madeBy: operator.email, endedSessions: 1, unlinked: 0 } },
      ],
    );
    const browser = await signIn(world, email, newPassword);
    assert.match(
      (await browser.get("/profile")).text,
      /was reset on 20[\d-]+ with a link that operator@example\.org made/,
    );
    assert.match(
      (await browser.get("/profile")).text,
      /<dt>Last reset of the password<\/dt><dd>.*operator@example\.org made/,
    );
    await world.database.sql(
      `UPDATE console.password_reset SET used_at = now() - interval '31 days' WHERE person_id = '${personId}'`,
    );
    const later = await signIn(world, email, newPassword);
    assert.doesNotMatch((await later.get("/profile")).text, /was reset on/);
  });

  it("is stored as a hash and logged nowhere", async () => {
    const link = await makeLink(await someone());
    await world.browser().get(link);
    const token = link.split("/").at(-1) ?? "";
    const rows = await world.database.sql("SELECT r::text AS row FROM console.password_reset AS r");
    assert.ok(rows.length > 0);
    assert.ok(rows.every(({ row }) => !String(row).includes(token)));
    assert.ok(!world.logText().includes(token));
  });

  it("leaves the second factor as it is", async () => {
    const { email, browser, personId } = await someone();
    const path = "/profile/second-factor";
    const page = await browser.submit(path, {}, `${path}/begin`);
    const secret = Secret.fromBase32(/<code>([A-Z2-7-]+)<\/code>/.exec(page.text)?.[1]?.replaceAll("-", "") ?? "");
    const code = new TOTP({ secret }).generate({ timestamp: world.clock.nowMs() });
    assert.equal((await browser.post(`${path}/confirm`, { code, password })).title, "Recovery codes");
    await world.browser().fill(await makeLink({ personId }), newPasswords);
    const seen = await world.browser().fill("/sign-in", { email, password: newPassword });
    assert.match(seen.location, /^\/sign-in\/second-factor/);
  });

  it("ends when a later one is made, after 24 hours, and when its person changes the password", async () => {
    const { browser, personId } = await someone();
    const first = await makeLink({ personId });
    const second = await makeLink({ personId });
    assert.equal((await world.browser().get(first)).status, 404);
    assert.equal((await world.browser().get(second)).status, 200);
    const change = { password, ...newPasswords };
    assert.equal((await browser.fill("/profile/password", change)).location, "/profile");
    assert.equal((await world.browser().get(second)).status, 404);
    const third = await makeLink({ personId });
    const [row] = await world.database.sql(
      "SELECT extract(epoch FROM max(expires_at) - now()) / 3600 AS hours FROM console.password_reset",
    );
    assert.ok(Number(row?.["hours"]) > 23.9 && Number(row?.["hours"]) <= 24);
    await world.database.sql("UPDATE console.password_reset SET expires_at = now()");
    assert.equal((await world.browser().get(third)).status, 404);
  });

  it("ends with its person, also when that is activated again, and with the operator who made it", async () => {
    const { personId } = await someone();
    const link = await makeLink({ personId });
    await operator.browser.get("/operator/people");
    await operator.browser.post(`/operator/people/${personId}/stop`);
    assert.equal((await world.browser().get(link)).status, 404);
    assert.equal((await operator.browser.post(`/operator/people/${personId}/password-reset`)).status, 409);
    await operator.browser.post(`/operator/people/${personId}/activate`);
    assert.equal((await world.browser().get(link)).status, 404);

    const email = "second-operator@example.org";
    const second = world.browser();
    await second.fill(await invite(operator.browser, "", email, "operator"), passwords);
    const ofSecond = await makeLink({ personId }, second);
    assert.equal((await world.browser().get(ofSecond)).status, 200);
    await operator.browser.get("/operator/people");
    await operator.browser.post(`/operator/people/${await idOf(world, email)}/stop`);
    assert.equal((await world.browser().get(ofSecond)).status, 404);
  });

  it("is taken by one of two at once", async () => {
    const { email, personId } = await someone();
    const link = await makeLink({ personId });
    const both = [world.browser(), world.browser()];
    for (const one of both) await one.get(link);
    const given = both.map((_, index) => `${newPassword} ${index}`);
    const seen = await Promise.all(
      both.map((one, index) =>
        one.post(link, { "new-password": given[index] ?? "", "repeat-password": given[index] ?? "" }),
      ),
    );
    assert.deepEqual(new Set(seen.map(({ status }) => status)), new Set([303, 404]));
    const winner = seen.findIndex(({ status }) => status === 303);
    assert.equal(await canSignIn(email, given[winner] ?? ""), true);
  });

  it("is not made by a session alone, nor is another operator invited", async () => {
    const { personId } = await someone();
    const path = `/operator/people/${personId}/password-reset`;
    const count = async () => (await world.database.sql("SELECT 1 FROM console.password_reset")).length;
    const before = await count();
    for (const typed of ["", "not the password"]) {
      const unproven = await operator.browser.fill(path, { password: typed });
      assert.equal(unproven.status, 422);
      checkPage(unproven, "the question");
    }
    assert.equal(await count(), before);
    const fields = { email: "third@example.org", password: "not the password" };
    await operator.browser.get("/operator/people");
    assert.equal((await operator.browser.post("/operator/people/operators", fields)).status, 422);
    const invited = "SELECT 1 FROM console.invitation WHERE email = 'third@example.org'";
    assert.equal((await world.database.sql(invited)).length, 0);
  });

  it("is not for oneself, nor for nobody, and signs out whoever else uses it", async () => {
    await operator.browser.get("/operator/people");
    const own = await operator.browser.post(`/operator/people/${operator.personId}/password-reset`);
    assert.equal(own.status, 409);
    const other = await someone();
    const { personId } = await someone();
    const token = other.browser.cookies.get(session) ?? "";
    await other.browser.fill(await makeLink({ personId }), newPasswords);
    assert.ok(!other.browser.cookies.has(session));
    other.browser.cookies.set(session, token);
    assert.equal((await other.browser.get("/profile")).status, 303, "on the server, too");
  });

  it("and its person stopped at the same instant wait for each other in one order, not in a circle", async () => {
    const { personId } = await someone();
    const link = await makeLink({ personId });
    const browser = world.browser();
    await browser.get(link);
    const sent = await inTransaction(world.database.pool, async (db) => {
      await lockPerson(db, personId);
      const setting = browser.post(link, newPasswords);
      await untilOneWaits();
      await endResets(db, personId);
      return [setting];
    });
    assert.equal((await Promise.all(sent))[0]?.status, 404);
  });

  it("is made while its operator is locked: two who make one for each other do not wait in a circle", async () => {
    const { personId } = await someone();
    await inTransaction(world.database.pool, async (db) => {
      await lockPerson(db, operator.personId);
      assert.notEqual(await makeLink({ personId }), "");
    });
  });
});

// As another password has it, at the cost of tests.
const another = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

describe("a sign-in that began before the password was changed", () => {
  it("opens nothing after it, and does not bring the password before back", async () => {
    const dearer = await world.startReplica({ PASSWORD_PASSES: 2 });
    for (const app of [world.app, dearer]) {
      const { email, personId } = await someone();
      const browser = world.browser(app);
      await browser.get("/sign-in");
      const sent = await inTransaction(world.database.pool, async (db) => {
        await setPasswordHash(db, personId, another);
        const signingIn = browser.post("/sign-in", { email, password });
        await untilOneWaits();
        return [signingIn];
      });
      assert.equal((await Promise.all(sent))[0]?.status, 422);
      assert.ok(!browser.cookies.has(session));
      const [row] = await world.database.sql(
        `SELECT password_hash FROM console.person WHERE person_id = '${personId}'`,
      );
      assert.equal(row?.["password_hash"], another);
    }
  });

  it("leaves no half session behind", async () => {
    const { email, personId } = await someone();
    await world.database.sql(`UPDATE console.person SET totp_secret = 'x' WHERE person_id = '${personId}'`);
    const browser = world.browser();
    await browser.get("/sign-in");
    const sent = await inTransaction(world.database.pool, async (db) => {
      await setPasswordHash(db, personId, another);
      const signingIn = browser.post("/sign-in", { email, password });
      await untilOneWaits();
      return [signingIn];
    });
    assert.equal((await Promise.all(sent))[0]?.status, 422);
  });
});
