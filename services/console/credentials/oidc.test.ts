import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { Secret, TOTP } from "otpauth";
import { problems } from "../html/problem.ts";
import { failuresBeforeLock } from "../store/people.ts";
import type { Browser, SeenPage } from "../testing/browser.ts";
import type { World } from "../testing/console.ts";
import { begin, leadsTo, noteOf, sessionCookie, startIssuerWorld } from "../testing/issuer-world.ts";
import { otherKey, type Issuer } from "../testing/oidc-provider.ts";
import { checkPage } from "../testing/pages.ts";
import { join, password, signIn, type TestPerson } from "../testing/people.ts";

const resources = new AsyncDisposableStack();
let world: World;
let issuer: Issuer;
let operator: TestPerson;
let ownKey: Issuer["key"];

before(async () => {
  ({ world, issuer, operator } = resources.use(await startIssuerWorld()));
  ownKey = issuer.key;
});
after(() => resources.disposeAsync());
afterEach(() => Object.assign(issuer, { refusal: undefined, tamper: undefined, key: ownKey, floodBytes: 0 }));

const session = sessionCookie;
let people = 0;
const someone = (): Promise<TestPerson> => join(world, operator.browser, "acme", "developer");

/** Through the issuer and back. */
async function enter(browser: Browser, next = "/"): Promise<SeenPage> {
  return browser.get(await issuer.visit((await begin(browser, next)).href));
}

const beginLink = async (browser: Browser): Promise<URL> =>
  leadsTo(
    await browser.fill("/profile/identities", {}).then(() => browser.post("/profile/identities/link", { password })),
  );

/** Somebody with an own account at the issuer, which is linked. */
async function linked(): Promise<TestPerson & { subject: string }> {
  const somebody = await someone();
  people += 1;
  const subject = `subject-${people}`;
  issuer.subject = subject;
  const { browser } = somebody;
  const back = await browser.get(await issuer.visit((await beginLink(browser)).href));
  assert.equal(back.location, "/profile/identities");
  return { ...somebody, subject };
}

async function linesOf(action: string, personId: string): Promise<unknown[]> {
  const statement = `SELECT before, after FROM console.audit_entry
    WHERE action = '${action}' AND target = '${personId}' ORDER BY audit_id`;
  return (await world.database.sql(statement)).map((row) => ({ ...row }));
}

describe("sign-in through an issuer", () => {
  it("is offered by name, and opens a session of its own that leads to where it was begun from", async () => {
    const { personId } = await linked();
    const browser = world.browser();
    const page = await browser.get("/sign-in?next=/accounts/acme/keys");
    assert.match(page.text, /<button>Sign in with Example &#60;Login&#62;<\/button>/);
    checkPage(page, "/sign-in");
    const left = await browser.post("/sign-in/oidc", { next: "/accounts/acme/keys" });
    checkPage(left, "on to the issuer");
    assert.ok(!browser.cookies.has(session));
    const seen = await browser.get(await issuer.visit(leadsTo(left).href));
    assert.equal(seen.location, "/accounts/acme/keys");
    assert.match(
      seen.headers.getSetCookie().join(),
      /__Host-session=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax/,
    );
    assert.equal((await browser.get("/profile")).status, 200);
    assert.deepEqual(await linesOf("sign-in", personId), [{ before: null, after: { by: issuer.url } }]);
  });

  it("sends the issuer code, PKCE, state and nonce, and nothing of it is stored as it is", async () => {
    const url = await begin(world.browser());
    const { searchParams } = url;
    assert.equal(searchParams.get("response_type"), "code");
    assert.equal(searchParams.get("code_challenge_method"), "S256");
    assert.equal(searchParams.get("redirect_uri"), "https://console.example/sign-in/oidc/callback");
    const rows = await world.database.sql("SELECT a::text AS row FROM console.oidc_attempt AS a");
    for (const name of ["state", "nonce", "code_challenge"]) {
      const value = searchParams.get(name) ?? "";
      assert.equal(value.length, 43, name);
      assert.ok(
        rows.every(({ row }) => !String(row).includes(value)),
        name,
      );
      assert.ok(!world.logText().includes(value));
    }
  });

  it("still takes the second factor, and the log of it names the issuer", async () => {
    const { browser, personId } = await linked();
    const path = "/profile/second-factor";
    const page = await browser.submit(path, {}, `${path}/begin`);
    const typed = /<code>([A-Z2-7-]+)<\/code>/.exec(page.text)?.[1]?.replaceAll("-", "") ?? "";
    const totp = new TOTP({ secret: Secret.fromBase32(typed) });
    const code = (): string => totp.generate({ timestamp: world.clock.nowMs() });
    await browser.post(`${path}/confirm`, { code: code(), password });
    world.clock.moveMs += 30_000;
    const other = world.browser();
    const seen = await enter(other, "/accounts");
    assert.equal(seen.location, "/sign-in/second-factor?next=%2Faccounts");
    assert.equal((await other.get("/profile")).location, "/sign-in?next=%2Fprofile");
    const half = other.cookies.get(session);
    await other.get(seen.location);
    assert.equal(
      (await other.post("/sign-in/second-factor", { code: code(), next: "/accounts" })).location,
      "/accounts",
    );
    assert.notEqual(other.cookies.get(session), half);
    assert.deepEqual((await linesOf("sign-in", personId)).at(-1), { before: null, after: { by: issuer.url } });
  });

  it("makes nobody out of the blue: an unknown subject is told to link first", async () => {
    issuer.subject = "unknown";
    const browser = world.browser();
    const before = await world.database.sql("SELECT count(*) FROM console.person");
    const seen = await enter(browser);
    assert.equal(noteOf(seen), "unknown");
    assert.match(
      (await browser.get(seen.location)).text,
      /role="alert">Nobody here is linked[^<]+link it in your profile/,
    );
    assert.ok(!browser.cookies.has(session));
    assert.deepEqual(await world.database.sql("SELECT count(*) FROM console.person"), before);
  });

  it("takes nobody over by an address, whatever the issuer says it is", async () => {
    issuer.subject = "somebody-else";
    issuer.tamper = (claims) => ({ ...claims, email: operator.email, email_verified: true });
    assert.equal(noteOf(await enter(world.browser())), "unknown");
  });

  it("refuses whom the console has stopped, or has locked", async () => {
    const { personId } = await linked();
    for (const change of ["status = 'stopped'", "status = 'active', locked_until = now() + interval '1 h'"]) {
      await world.database.sql(`UPDATE console.person SET ${change} WHERE person_id = '${personId}'`);
      const browser = world.browser();
      assert.equal(noteOf(await enter(browser)), "refused", change);
      assert.ok(!browser.cookies.has(session));
    }
  });

  it("goes on to plain paths of this console only", async () => {
    await linked();
    for (const next of ["https://evil.example", "//evil.example", "/\\evil.example"]) {
      assert.equal((await enter(world.browser(), next)).location, "/", next);
    }
  });

  it("without a CSRF token, or sent by another site, is refused", async () => {
    const browser = world.browser();
    await browser.get("/sign-in");
    assert.equal((await browser.post("/sign-in/oidc", { csrf: "" })).status, 403);
    assert.equal((await browser.post("/sign-in/oidc", {}, { "sec-fetch-site": "cross-site" })).status, 403);
    const plain = await world.startReplica({ OIDC_ISSUER: "" });
    assert.equal((await world.browser(plain).fill("/sign-in", {})).text.includes("/sign-in/oidc"), false);
    assert.equal((await world.browser(plain).get("/sign-in/oidc/callback")).status, 404);
  });
});

describe("what comes back from the issuer", () => {
  it("is refused in another browser than the one that began (login CSRF), which can still go on", async () => {
    await linked();
    const attacker = world.browser();
    const callback = await issuer.visit((await begin(attacker)).href);
    const victim = world.browser();
    assert.equal(noteOf(await victim.get(callback)), "stale", "without any cookie");
    await victim.get("/sign-in");
    const seen = await victim.get(callback);
    assert.equal(noteOf(seen), "stale");
    assert.match((await victim.get(seen.location)).text, /was begun in another browser/);
    assert.ok(!victim.cookies.has(session));
    assert.equal((await attacker.get(callback)).location, "/");
  });

  it("works once: of the same answer many times one counts", async () => {
    await linked();
    const browser = world.browser();
    const callback = await issuer.visit((await begin(browser)).href);
    const seen = await Promise.all([1, 2, 3].map(() => browser.get(callback)));
    assert.deepEqual(seen.map(noteOf).toSorted(), ["/", "stale", "stale"]);
    const other = world.browser();
    assert.equal(noteOf(await other.get(callback)), "stale");
  });

  it("is refused after ten minutes", async () => {
    await linked();
    const browser = world.browser();
    const callback = await issuer.visit((await begin(browser)).href);
    await world.database.sql("UPDATE console.oidc_attempt SET expires_at = now()");
    assert.equal(noteOf(await browser.get(callback)), "stale");
  });

  it("is refused with another nonce, code, client, issuer, key or end than it must have", async () => {
    await linked();
    const way = async (change: (url: URL) => void = () => undefined, alter = (callback: string) => callback) => {
      const browser = world.browser();
      const url = await begin(browser);
      change(url);
      const seen = await browser.get(alter(await issuer.visit(url.href)));
      assert.ok(!browser.cookies.has(session));
      return noteOf(seen);
    };
    assert.equal(await way((url) => url.searchParams.set("nonce", "n".repeat(43))), "failed", "nonce");
    assert.equal(await way((url) => url.searchParams.set("client_id", "other")), "failed", "a code for another client");
    assert.equal(await way((url) => url.searchParams.set("code_challenge", "c".repeat(43))), "failed", "PKCE");
    assert.equal(await way(undefined, (back) => back.replace(/code=[^&]+/, "code=wrong")), "failed", "code");
    assert.equal(
      await way(undefined, (back) => back.replace(/iss=[^&]+/, "iss=https://evil.example")),
      "failed",
      "iss",
    );
    assert.equal(await way(undefined, (back) => back.replace(/state=[^&]+/, "state=wrong")), "stale", "state");
    for (const change of [
      { aud: "other" },
      { iss: "https://evil.example" },
      { exp: 1 },
      { nonce: undefined },
      { sub: undefined },
      { sub: "s".repeat(256) },
      { sub: "nobody\0" },
    ]) {
      issuer.tamper = (claims) => ({ ...claims, ...change });
      assert.equal(await way(), "failed", JSON.stringify(change));
    }
    issuer.tamper = undefined;
    issuer.key = otherKey();
    assert.equal(await way(), "failed", "key");
    issuer.key = ownKey;
    assert.ok(!world.logText().includes(issuer.subject), "nor who somebody is there");
    assert.doesNotMatch(world.logText(), /eyJ|code=|"code":"[\w-]{43}"/, "neither tokens nor codes are logged");
  });

  it("may be that the person did not want to, or that the issuer did not", async () => {
    for (const [refusal, note] of [
      ["access_denied", "cancelled"],
      ["temporarily_unavailable", "away"],
      ["server_error", "failed"],
    ] as const) {
      issuer.refusal = refusal;
      assert.equal(noteOf(await enter(world.browser())), note);
    }
  });

  it("when it is wrong locks nobody, and is limited for its address only", async () => {
    const { email } = await linked();
    const app = await world.startReplica({ GUESSES_PER_MINUTE: failuresBeforeLock });
    const guessing = world.browser(app);
    await guessing.get("/sign-in");
    const path = `/sign-in/oidc/callback?code=guess&state=${"s".repeat(43)}`;
    for (let count = 0; count < failuresBeforeLock; count += 1) {
      assert.equal(noteOf(await guessing.get(path)), "stale");
    }
    assert.equal((await guessing.get(path)).title, problems["too-many"].title);
    const elsewhere = world.browser(app);
    assert.equal((await elsewhere.fill("/sign-in", { email, password })).location, "/");
    assert.equal((await enter(world.browser(app))).location, "/");
  });
});

describe("while the issuer is away", () => {
  it("a sentence says so, passwords go on, and it is found again by itself", async () => {
    const { email } = await linked();
    await enter(world.browser());
    const waiting = world.browser();
    const callback = await issuer.visit((await begin(waiting)).href);
    await issuer.stop();
    try {
      assert.equal(noteOf(await waiting.get(callback)), "away", "the code cannot be exchanged");
      const browser = world.browser();
      const seen = await browser.fill("/sign-in", {}).then(() => browser.post("/sign-in/oidc"));
      assert.equal(noteOf(seen), "away");
      assert.match(
        (await browser.get(seen.location)).text,
        /Example &#60;Login&#62; does not answer\. Use your password/,
      );
      assert.equal((await (await signIn(world, email)).get("/profile")).status, 200);
    } finally {
      await issuer.start();
    }
    const before = issuer.discoveries();
    assert.equal((await enter(world.browser())).location, "/");
    assert.equal((await enter(world.browser())).location, "/");
    assert.equal(issuer.discoveries(), before + 1, "asked for its addresses once");
  });
});

describe("linking", () => {
  it("takes the password, and a session of its own; it is noted and can be undone", async () => {
    const { browser, personId, email, subject } = await linked();
    assert.deepEqual(await linesOf("identity.link", personId), [
      { before: null, after: { issuer: issuer.url, subject } },
    ]);
    const page = await browser.get("/profile/identities");
    checkPage(page, "/profile/identities");
    assert.match(page.text, new RegExp(`as<code>${subject}</code>`));
    const other = await signIn(world, email);
    const token = browser.cookies.get(session);
    const seen = await browser.submit("/profile/identities", { issuer: issuer.url }, "/profile/identities/unlink");
    assert.match(seen.text, /is unlinked, and your other sessions have ended/);
    assert.notEqual(browser.cookies.get(session), token);
    assert.equal((await other.get("/profile")).status, 303);
    assert.equal(noteOf(await enter(world.browser())), "unknown");
    assert.equal((await linesOf("identity.unlink", personId)).length, 1);
    assert.equal((await browser.post("/profile/identities/unlink", { issuer: issuer.url })).status, 409);
  });

  it("is not begun with a wrong password, which counts as a failed sign-in", async () => {
    const { browser, email } = await someone();
    await browser.get("/profile/identities");
    assert.equal((await browser.post("/profile/identities/link", { password: "wrong password" })).status, 422);
    const [row] = await world.database.sql(
      `SELECT failed_sign_ins AS failures FROM console.person WHERE email = '${email}'`,
    );
    assert.equal(row?.["failures"], 1);
  });

  it("is finished by the session that began it only, in the same browser, too, and ends with it", async () => {
    const victim = await someone();
    const attacker = await someone();
    issuer.subject = "of-the-attacker";
    const stolen = await issuer.visit((await beginLink(attacker.browser)).href);
    assert.equal((await victim.browser.get(stolen)).location, "/profile/identities");
    assert.match((await victim.browser.get("/profile/identities")).text, /begun in another browser/);
    // At the very browser that began it, and with another session.
    const shared = attacker.browser;
    shared.cookies.set(session, victim.browser.cookies.get(session) ?? "");
    assert.equal((await shared.get(stolen)).location, "/profile/identities");
    assert.match((await shared.get("/profile/identities")).text, /begun in another browser/);
    assert.deepEqual(await linesOf("identity.link", victim.personId), []);
    assert.deepEqual(await linesOf("identity.link", attacker.personId), []);
    const own = await someone();
    const late = await issuer.visit((await beginLink(own.browser)).href);
    await own.browser.post("/sign-out");
    assert.equal(noteOf(await own.browser.get(late)), "stale", "it ends with its session");
  });

  it("of what is linked already is refused, here or to somebody else", async () => {
    const first = await linked();
    const second = await someone();
    issuer.subject = first.subject;
    const { browser } = second;
    const seen = await browser.get(await issuer.visit((await beginLink(browser)).href));
    assert.match((await browser.get(seen.location)).text, /is linked already: here, or to somebody else/);
    assert.equal((await enter(world.browser())).location, "/");
    assert.deepEqual(await linesOf("identity.link", second.personId), []);
    issuer.subject = "another";
    const own = await first.browser.get(await issuer.visit((await beginLink(first.browser)).href));
    assert.equal(own.location, "/profile/identities");
    assert.equal((await linesOf("identity.link", first.personId)).length, 1);
  });
});
