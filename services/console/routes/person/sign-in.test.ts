import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { problems } from "../../html/problem.ts";
import { failuresBeforeLock } from "../../store/people.ts";
import type { SeenPage } from "../../testing/browser.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { enrol, idOf, join, password, setUp, signIn, type TestPerson } from "../../testing/people.ts";

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.neighbours.addAccount("acme");
});
after(() => world[Symbol.asyncDispose]());

const session = "__Host-session";
const someone = (): Promise<TestPerson> => join(world, operator.browser, "acme", "owner");

async function attempt(email: string, given: string, browser = world.browser()): Promise<SeenPage> {
  return browser.fill("/sign-in", { email, password: given });
}

/** What a person sees of an answer: tokens of forms differ each time. */
const shown = ({ status, text }: SeenPage, email: string): string =>
  `${status} ${text.replaceAll(/name="csrf" value="[^"]+"/g, "").replaceAll(email, "ADDRESS")}`;

describe("the session", () => {
  it("gets a new token at the sign-in, and what the browser brought along is worth nothing", async () => {
    const { email } = await someone();
    const planted = "A".repeat(43);
    const browser = world.browser();
    browser.cookies.set(session, planted);
    await attempt(email, password, browser);
    const token = browser.cookies.get(session) ?? "";
    assert.notEqual(token, planted);
    assert.equal((await browser.get("/profile")).status, 200);
    const attacker = world.browser();
    attacker.cookies.set(session, planted);
    assert.equal((await attacker.get("/profile")).status, 303);
  });

  it("of somebody else that was planted in a browser ends when its user signs in", async () => {
    const attacker = await someone();
    const { email } = await someone();
    const victim = world.browser();
    const planted = attacker.browser.cookies.get(session) ?? "";
    victim.cookies.set(session, planted);
    await victim.get("/profile");
    await victim.post("/sign-in", { email, password });
    assert.notEqual(victim.cookies.get(session), planted);
    assert.match((await victim.get("/profile")).text, new RegExp(email));
    assert.equal((await attacker.browser.get("/profile")).status, 303);
  });

  it("is stored as a hash only", async () => {
    const { browser } = await someone();
    const token = browser.cookies.get(session) ?? "";
    const rows = await world.database.sql("SELECT s::text AS row FROM console.session AS s");
    assert.ok(rows.length > 0);
    assert.ok(rows.every(({ row }) => !String(row).includes(token)));
    assert.ok(!world.logText().includes(token));
  });

  it("ends an hour after its last use, and twelve hours after its begin", async () => {
    for (const change of ["last_seen_at = now() - interval '61 min'", "created_at = now() - interval '12 h 1 min'"]) {
      const { browser, personId } = await someone();
      assert.equal((await browser.get("/profile")).status, 200);
      await world.database.sql(`UPDATE console.session SET ${change} WHERE person_id = '${personId}'`);
      assert.equal((await browser.get("/profile")).status, 303, change);
    }
  });

  it("ends at once when the person is stopped, or signs out", async () => {
    const { browser, email } = await someone();
    const token = browser.cookies.get(session) ?? "";
    await browser.get("/profile");
    await browser.post("/sign-out");
    assert.ok(!browser.cookies.has(session));
    browser.cookies.set(session, token);
    assert.equal((await browser.get("/profile")).status, 303);
    const again = await signIn(world, email);
    await world.database.sql(`UPDATE console.person SET status = 'stopped' WHERE email = '${email}'`);
    assert.equal((await again.get("/profile")).status, 303);
    assert.equal((await attempt(email, password)).status, 422);
  });
});

it("a password is hashed anew at the next sign-in when the cost was raised", async () => {
  const { email } = await someone();
  const costOf = async (): Promise<string> => {
    const [row] = await world.database.sql(`SELECT password_hash FROM console.person WHERE email = '${email}'`);
    return /m=\d+,t=\d+/.exec(String(row?.["password_hash"]))?.[0] ?? "";
  };
  assert.equal(await costOf(), "m=8,t=1");
  const dearer = await world.startReplica({ PASSWORD_MEMORY_KIB: 16, PASSWORD_PASSES: 2 });
  await attempt(email, "wrong password", world.browser(dearer));
  assert.equal(await costOf(), "m=8,t=1");
  assert.equal((await attempt(email, password, world.browser(dearer))).status, 303);
  assert.equal(await costOf(), "m=16,t=2");
  assert.equal((await attempt(email, password)).status, 303, "the other replica reads it, too");
});

describe("guessing", () => {
  it("an unknown address, a wrong password, a locked and a stopped person get the very same answer", async () => {
    const wrong = await someone();
    const locked = await someone();
    const stopped = await someone();
    await world.database.sql(
      `UPDATE console.person SET locked_until = now() + interval '1 h' WHERE email = '${locked.email}'`,
    );
    await world.database.sql(`UPDATE console.person SET status = 'stopped' WHERE email = '${stopped.email}'`);
    const unknown = "unknown@example.org";
    const expected = shown(await attempt(unknown, "some password"), unknown);
    assert.match(expected, /The address or the password is wrong, or there were too many attempts/);
    assert.equal(shown(await attempt(wrong.email, "some password"), wrong.email), expected);
    assert.equal(shown(await attempt(locked.email, password), locked.email), expected);
    assert.equal(shown(await attempt(stopped.email, password), stopped.email), expected);
    assert.equal((await attempt(wrong.email, password)).status, 303);
  });

  it("an address that nobody has costs the work of a hash, too: of a hundred at once most find no place", async () => {
    const app = await world.startReplica({ PASSWORD_MEMORY_KIB: 19_456, PASSWORD_PASSES: 8 });
    const browser = world.browser(app);
    await browser.get("/sign-in");
    const fields = { email: "nobody@example.org", password: "wrong password" };
    const seen = await Promise.all(Array.from({ length: 100 }, () => browser.post("/sign-in", fields)));
    const statuses = new Set(seen.map(({ status }) => status));
    assert.deepEqual(
      [...statuses].toSorted((a, b) => a - b),
      [422, 503],
    );
    assert.equal((await browser.post("/sign-in", fields)).status, 422, "and then there is room again");
  });

  it("with a second factor, a locked person is not told either that the password was right", async () => {
    const { email, browser } = await someone();
    await enrol(world, browser);
    await world.database.sql(
      `UPDATE console.person SET locked_until = now() + interval '1 h' WHERE email = '${email}'`,
    );
    assert.equal(shown(await attempt(email, password), email), shown(await attempt(email, "wrong password"), email));
  });

  it("writes one row for every failure, whoever it is counted against", async () => {
    const { email } = await someone();
    const counted = async (): Promise<number[]> => {
      const [row] = await world.database.sql(
        `SELECT (SELECT sum(failures)::int FROM console.decoy) AS decoys,
           (SELECT sum(failed_sign_ins)::int FROM console.person) AS people`,
      );
      return [Number(row?.["decoys"]), Number(row?.["people"])];
    };
    const [decoys = 0, failures = 0] = await counted();
    await attempt("nobody@example.org", "wrong password");
    assert.deepEqual(await counted(), [decoys + 1, failures]);
    await attempt(email, "wrong password");
    assert.deepEqual(await counted(), [decoys + 1, failures + 1]);
    await world.database.sql(
      `UPDATE console.person SET locked_until = now() + interval '1 h' WHERE email = '${email}'`,
    );
    await attempt(email, password);
    assert.deepEqual(await counted(), [decoys + 2, failures + 1]);
  });

  it("locks a person from the tenth failure in a row on, for a quarter of an hour, and says so in the audit log", async () => {
    const { email } = await someone();
    for (let count = 1; count < failuresBeforeLock; count += 1) await attempt(email, "wrong password");
    assert.equal((await attempt(email, password)).status, 303, "not locked yet, and a sign-in forgets the failures");
    for (let count = 1; count <= failuresBeforeLock; count += 1) await attempt(email, "wrong password");
    assert.equal((await attempt(email, password)).status, 422, "locked");
    const [row] = await world.database.sql(
      `SELECT extract(epoch FROM locked_until - now()) AS seconds FROM console.person WHERE email = '${email}'`,
    );
    assert.ok(Number(row?.["seconds"]) > 880 && Number(row?.["seconds"]) <= 900);
    const noted = await world.database.sql(
      `SELECT person_id FROM console.audit_entry WHERE action = 'sign-in.lock' AND target = '${email}'`,
    );
    assert.deepEqual(noted, [{ person_id: null }]);
    await world.database.sql(`UPDATE console.person SET locked_until = now() WHERE email = '${email}'`);
    await attempt(email, "wrong password");
    assert.equal((await attempt(email, password)).status, 422, "one more failure locks again");
  });

  it("is limited for an address over all pages that take a secret, and 429 is a page", async () => {
    const app = await world.startReplica({ GUESSES_PER_MINUTE: 3 });
    const browser = world.browser(app);
    const statuses = [];
    for (let count = 0; count < 3; count += 1) statuses.push((await attempt("a@example.org", "x", browser)).status);
    const last = await attempt("a@example.org", "x", browser);
    const token = await browser.post(`/invitations/${"t".repeat(43)}`);
    assert.deepEqual([...statuses, last.status, token.status], [422, 422, 422, 429, 429]);
    assert.equal(last.title, problems["too-many"].title);
    const elsewhere = world.browser(app);
    assert.equal((await attempt(operator.email, password, elsewhere)).status, 303);
  });
});

describe("the second factor", () => {
  it("stands between the password and every page, and its code works once", async () => {
    const { email, browser } = await someone();
    const { code } = await enrol(world, browser);
    const next = await attempt(email, password);
    assert.match(next.location, /^\/sign-in\/second-factor/);
    const first = await signIn(world, email);
    const half = first.cookies.get(session);
    assert.equal((await first.get("/profile")).location, "/sign-in?next=%2Fprofile");
    assert.equal((await first.fill("/sign-in/second-factor", { code: "000000" })).status, 422);
    const used = code();
    assert.equal((await first.post("/sign-in/second-factor", { code: used })).status, 303);
    assert.notEqual(first.cookies.get(session), half, "the session is another one");
    assert.equal((await first.get("/profile")).status, 200);
    const second = await signIn(world, email);
    assert.equal((await second.fill("/sign-in/second-factor", { code: used })).status, 422, "a replay is refused");
    world.clock.moveMs += 30_000;
    assert.equal((await second.post("/sign-in/second-factor", { code: code() })).status, 303);
  });

  it("takes one of two that come with the same code at once", async () => {
    const { email, browser } = await someone();
    const { code } = await enrol(world, browser);
    const both = [await signIn(world, email), await signIn(world, email)];
    for (const one of both) await one.get("/sign-in/second-factor");
    const seen = await Promise.all(both.map((one) => one.post("/sign-in/second-factor", { code: code() })));
    assert.deepEqual(
      seen.map(({ status }) => status).toSorted((a, b) => a - b),
      [303, 422],
    );
  });

  it("is replaced by a recovery code, once, which is stored as a hash and noted", async () => {
    const { email, browser, personId } = await someone();
    const { recovery } = await enrol(world, browser);
    const [used = "", other = ""] = recovery;
    const first = await signIn(world, email);
    assert.equal((await first.fill("/sign-in/second-factor", { code: used.toLowerCase() })).status, 303);
    const second = await signIn(world, email);
    assert.equal((await second.fill("/sign-in/second-factor", { code: used })).status, 422);
    assert.equal((await second.post("/sign-in/second-factor", { code: other })).status, 303);
    assert.match((await second.get("/profile")).text, /8 recovery codes are left/);
    const rows = await world.database.sql("SELECT r::text AS row FROM console.recovery_code AS r");
    assert.ok(rows.every(({ row }) => !recovery.some((code) => String(row).includes(code.replaceAll("-", "")))));
    const noted = await world.database.sql(
      `SELECT count(*)::int AS count FROM console.audit_entry
       WHERE action = 'second-factor.recovery-code-used' AND person_id = '${personId}'`,
    );
    assert.deepEqual(noted, [{ count: 2 }]);
  });

  it("is guessed no more often than a password: wrong codes lock, and then no right one is taken", async () => {
    const { email, browser } = await someone();
    const { code } = await enrol(world, browser);
    const guessing = await signIn(world, email);
    await guessing.get("/sign-in/second-factor");
    for (let count = 0; count < failuresBeforeLock; count += 1) {
      await guessing.post("/sign-in/second-factor", { code: "000000" });
    }
    const locked = await guessing.post("/sign-in/second-factor", { code: code() });
    assert.equal(locked.location, "/sign-in");
    assert.equal((await guessing.get("/profile")).status, 303);
  });

  it("waits five minutes for its code", async () => {
    const { email, browser } = await someone();
    const { code } = await enrol(world, browser);
    const slow = await signIn(world, email);
    await slow.get("/sign-in/second-factor");
    await world.database.sql(
      "UPDATE console.session SET created_at = now() - interval '5 min 1 s' WHERE NOT is_complete",
    );
    assert.equal((await slow.post("/sign-in/second-factor", { code: code() })).status, 403);
    assert.equal((await slow.get("/sign-in/second-factor")).location, "/sign-in");
  });

  it("ends other sessions when it is set up, and its secret is sealed for its person", async () => {
    const { email, browser, personId } = await someone();
    const other = await signIn(world, email);
    const before = browser.cookies.get(session);
    await enrol(world, browser);
    assert.notEqual(browser.cookies.get(session), before);
    assert.equal((await other.get("/profile")).status, 303);
    const elsewhere = await someone();
    await world.database.sql(
      `UPDATE console.person SET totp_secret = (
         SELECT totp_secret FROM console.person WHERE person_id = '${personId}')
       WHERE person_id = '${await idOf(world, elsewhere.email)}'`,
    );
    const swapped = await signIn(world, elsewhere.email);
    assert.equal((await swapped.fill("/sign-in/second-factor", { code: "123456" })).status, 500);
  });

  it("is removed, and its recovery codes are replaced, with password and code only", async () => {
    const { email, browser } = await someone();
    const { code, recovery } = await enrol(world, browser);
    const path = "/profile/second-factor";
    await browser.get(path);
    assert.equal((await browser.post(`${path}/remove`, { code: code(), password: "wrong password" })).status, 422);
    assert.equal((await browser.post(`${path}/remove`, { code: "000000", password })).status, 422);
    const renewed = await browser.post(`${path}/recovery-codes`, { code: code(), password });
    assert.equal(renewed.title, "Recovery codes");
    await browser.get(path);
    assert.equal(
      (await browser.post(`${path}/remove`, { code: recovery[0] ?? "", password })).status,
      422,
      "old codes",
    );
    world.clock.moveMs += 30_000;
    assert.equal((await browser.post(`${path}/remove`, { code: code(), password })).location, "/profile");
    assert.equal((await attempt(email, password)).location, "/");
  });
});
