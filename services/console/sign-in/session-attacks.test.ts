import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { Secret, TOTP } from "otpauth";
import { problems } from "../html/problem.ts";
import { insertSession } from "../store/sessions.ts";
import type { Browser, SeenPage } from "../testing/browser.ts";
import { startWorld, type World } from "../testing/console.ts";
import { join, password, passwords, setUp, signIn, type TestPerson } from "../testing/people.ts";

// What sign-in.test.ts, server.test.ts and oidc.test.ts try already is not tried again here.

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.neighbours.addAccount("acme");
});
after(() => world[Symbol.asyncDispose]());

const session = "__Host-session";
const csrf = "__Host-csrf";
const someone = (): Promise<TestPerson> => join(world, operator.browser, "acme", "owner");

/** Whether a session's token, wherever it was copied to, opens a page. */
async function opens(token: string): Promise<boolean> {
  const browser = world.browser();
  browser.cookies.set(session, token);
  return (await browser.get("/profile")).status === 200;
}

const tokenOf = (browser: Browser): string => browser.cookies.get(session) ?? "";

/** Sets a second factor up; tells codes of its app. */
async function enrol(browser: Browser): Promise<() => string> {
  const path = "/profile/second-factor";
  const page = await browser.submit(path, {}, `${path}/begin`);
  const secret = Secret.fromBase32(/<code>([A-Z2-7-]+)<\/code>/.exec(page.text)?.[1]?.replaceAll("-", "") ?? "");
  const code = (): string => {
    world.clock.moveMs += 30_000;
    return new TOTP({ secret }).generate({ timestamp: world.clock.nowMs() });
  };
  assert.equal((await browser.post(`${path}/confirm`, { code: code(), password })).title, "Recovery codes");
  return code;
}

const isStale = ({ status, title }: SeenPage): boolean => status === 403 && title === problems["stale-form"].title;

describe("a token that somebody knew before", () => {
  it("the second factor is of no use after it, for neither page nor code", async () => {
    const { email, browser } = await someone();
    const code = await enrol(browser);
    const victim = await signIn(world, email);
    const half = tokenOf(victim);
    assert.equal(await opens(half), false, "nor before");
    await victim.fill("/sign-in/second-factor", { code: code() });
    assert.equal(await opens(tokenOf(victim)), true);
    assert.equal(await opens(half), false);
    const attacker = world.browser();
    attacker.cookies.set(session, half);
    assert.equal((await attacker.get("/sign-in/second-factor")).location, "/sign-in");
  });

  it("a change of the password, the second factor or the role is of no use after it", async () => {
    const { browser, personId } = await someone();
    const changes: [string, () => Promise<unknown>][] = [
      ["password", () => browser.fill("/profile/password", { password, ...passwords })],
      ["second factor", () => enrol(browser)],
      [
        "role",
        async () => {
          await operator.browser.get("/accounts/acme/members");
          const changed = { "new-role": "developer" };
          // Somebody else stays owner.
          await join(world, operator.browser, "acme", "owner");
          await operator.browser.post(`/accounts/acme/members/${personId}/role`, changed);
          await browser.get("/profile");
        },
      ],
    ];
    for (const [what, change] of changes) {
      const known = tokenOf(browser);
      assert.equal(await opens(known), true, what);
      await change();
      assert.notEqual(tokenOf(browser), known, what);
      assert.equal(await opens(known), false, what);
      assert.equal(await opens(tokenOf(browser)), true, what);
    }
  });

  it("another session ends with a change of the password, and when an operator stops its person", async () => {
    const { email, browser, personId } = await someone();
    const copied = tokenOf(await signIn(world, email));
    await browser.fill("/profile/password", { password, ...passwords });
    assert.equal(await opens(copied), false);
    const last = tokenOf(browser);
    await operator.browser.get("/operator/people");
    await operator.browser.post(`/operator/people/${personId}/stop`);
    assert.equal(await opens(last), false);
    await operator.browser.post(`/operator/people/${personId}/activate`);
    assert.equal(await opens(last), false, "and does not come back with its person");
  });

  it("is taken from its cookie only, and of two cookies or a wrong one nothing is made", async () => {
    const { browser } = await someone();
    const token = tokenOf(browser);
    const bare = world.browser();
    const inUrl = await bare.get(`/profile?session=${token}&${session}=${token}`);
    assert.equal(inUrl.status, 303);
    assert.equal((await bare.get("/profile", { authorization: `Bearer ${token}`, "x-session": token })).status, 303);
    for (const cookie of [`session=${token}`, `${session}=${token}x`, `${session}="; DROP TABLE`]) {
      const seen = await bare.get("/profile", { cookie });
      assert.equal(seen.status, 303, cookie);
      assert.ok(!bare.cookies.has(session), cookie);
    }
  });

  it("is on no page, whatever the page is about", async () => {
    const { browser } = await someone();
    for (const path of ["/profile", "/profile/sessions", "/profile/password", "/accounts/acme/members", "/nothing"]) {
      assert.ok(!(await browser.get(path)).text.includes(tokenOf(browser)), path);
    }
  });
});

describe("half sessions", () => {
  it("of whoever knows the password alone end no whole session, however many they are", async () => {
    const { browser, personId } = await someone();
    for (let index = 0; index < 51; index += 1) {
      const opened = { personId, isComplete: false, address: "192.0.2.1", browser: "x", tokenHash: randomBytes(32) };
      await insertSession(world.database.pool, opened);
    }
    assert.equal((await browser.get("/profile")).status, 200);
  });
});

describe("cookies", () => {
  it("keep their attributes when a session gets another token, and when it ends", async () => {
    const { email, browser } = await someone();
    const code = await enrol(browser);
    const one = await signIn(world, email);
    const complete = await one.fill("/sign-in/second-factor", { code: code() });
    const pattern = /^__Host-session=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax$/;
    const lineOf = ({ headers }: SeenPage): string =>
      headers.getSetCookie().find((line) => line.startsWith(session)) ?? "";
    assert.match(lineOf(complete), pattern);
    assert.match(lineOf(await one.fill("/profile/password", { password, ...passwords })), pattern);
    await one.get("/profile");
    const ended = lineOf(await one.post("/sign-out"));
    assert.match(ended, /^__Host-session=; /);
    for (const attribute of ["Path=/", "HttpOnly", "Secure", "SameSite=Lax"])
      assert.ok(ended.includes(attribute), ended);
  });
});

describe("a form's token", () => {
  it("from before the sign-in, or from the half session, is of no use after it in the same browser", async () => {
    const { email, browser: first } = await someone();
    const code = await enrol(first);
    const browser = world.browser();
    await browser.get("/sign-in");
    const before = browser.csrf();
    await browser.post("/sign-in", { email, password });
    await browser.get("/sign-in/second-factor");
    const half = browser.csrf();
    assert.ok(isStale(await browser.post("/sign-in/second-factor", { csrf: before, code: code() })));
    await browser.post("/sign-in/second-factor", { csrf: half, code: code() });
    for (const known of [before, half]) assert.ok(isStale(await browser.post("/sign-out", { csrf: known })), known);
    assert.equal((await browser.get("/profile")).status, 200);
  });

  it("of another session of the same person, with the cookie that belongs to it, is refused", async () => {
    const { email, browser } = await someone();
    const other = await signIn(world, email);
    await other.get("/profile");
    browser.cookies.set(csrf, other.cookies.get(csrf) ?? "");
    const seen = await browser.post("/profile/sessions/end-others", { csrf: other.csrf() });
    assert.ok(isStale(seen), seen.text);
    assert.equal((await other.get("/profile")).status, 200);
  });

  it("does not make another method of a GET: what changes something is not there for links", async () => {
    const { browser } = await someone();
    for (const path of ["/sign-out", "/sign-in/oidc", "/profile/sessions/end-others", "/profile/identities/unlink"]) {
      assert.equal((await browser.get(path)).status, 404, path);
    }
    assert.equal((await browser.get("/profile")).status, 200);
  });
});
