import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import type { Browser, SeenPage } from "../../testing/browser.ts";
import type { World } from "../../testing/console.ts";
import { begin, leadsTo, noteOf, sessionCookie, startIssuerWorld } from "../../testing/issuer-world.ts";
import type { Issuer } from "../../testing/oidc-provider.ts";
import { checkPage } from "../../testing/pages.ts";
import { idOf, invite, join, password, passwords, signIn, type TestPerson } from "../../testing/people.ts";

const resources = new AsyncDisposableStack();
let world: World;
let issuer: Issuer;
let operator: TestPerson;
let number = 0;

before(async () => {
  ({ world, issuer, operator } = resources.use(await startIssuerWorld()));
});
after(() => resources.disposeAsync());
afterEach(() =>
  Object.assign(issuer, { refusal: undefined, tamper: undefined, tamperUserinfo: undefined, address: {} }),
);

type Invited = { email: string; link: string; browser: Browser };

/** Somebody new who is invited, and known to the issuer by the same address. */
async function invited(role: "developer" | "operator" = "developer"): Promise<Invited> {
  number += 1;
  const email = `invited-${number}@example.org`;
  const link = await invite(operator.browser, "acme", email, role);
  issuer.subject = `subject-of-invited-${number}`;
  issuer.address = { email, email_verified: true };
  return { email, link, browser: world.browser() };
}

const press = async ({ link, browser }: Invited, fields = {}): Promise<SeenPage> => {
  await browser.get(link);
  return browser.post(`${link}/oidc`, fields);
};

/** From the page of the invitation to the issuer; tells what the issuer sends back. */
const visit = async (one: Invited): Promise<string> => issuer.visit(leadsTo(await press(one)).href);

const accept = async (one: Invited): Promise<SeenPage> => one.browser.get(await visit(one));

async function peopleOf(email: string): Promise<number> {
  return (await world.database.sql(`SELECT FROM console.person WHERE email = '${email}'`)).length;
}

async function isOpen(email: string): Promise<boolean> {
  const open = `SELECT FROM console.invitation WHERE email = '${email}' AND accepted_at IS NULL`;
  return (await world.database.sql(open)).length === 1;
}

describe("an invitation that is accepted with an issuer", () => {
  it("makes a member without a password, linked, in one step, and says so in the audit log", async () => {
    const one = await invited();
    const page = await one.browser.get(one.link);
    checkPage(page, "invitation");
    assert.match(page.text, /<button>Accept with Example &#60;Login&#62;<\/button>/);
    const url = leadsTo(await one.browser.post(`${one.link}/oidc`));
    assert.equal(url.searchParams.get("scope"), "openid email");
    const seen = await one.browser.get(await issuer.visit(url.href));
    assert.equal(seen.location, "/");
    assert.match((await one.browser.get("/accounts/acme")).text, /Welcome\./);
    const personId = await idOf(world, one.email);
    const lines = await world.database.sql(
      `SELECT action FROM console.audit_entry WHERE person_id = '${personId}' ORDER BY audit_id`,
    );
    assert.deepEqual(
      lines.map(({ action }) => action),
      ["identity.link", "invitation.accept"],
    );
    assert.ok(!(await isOpen(one.email)));
    const again = world.browser();
    assert.equal((await again.get(await issuer.visit((await begin(again)).href))).location, "/", "signs in with it");
    assert.equal((await signIn(world, one.email)).cookies.has(sessionCookie), false, "no password opens it");
    assert.equal((await signIn(world, one.email, "")).cookies.has(sessionCookie), false);
  });

  it("is refused where the issuer does not say that the very address is theirs, and stays open", async () => {
    const one = await invited();
    const { email } = one;
    for (const address of [
      {},
      { email },
      { email, email_verified: "true" },
      { email, email_verified: 1 },
      { email, email_verified: false },
      { email_verified: true },
      { email: [email], email_verified: true },
      { email: "somebody-else@example.org", email_verified: true },
      { email: email.replace("@", "+x@"), email_verified: true },
      { email: `${email}.`, email_verified: true },
      { email: email.replace("example.org", "sub.example.org"), email_verified: true },
    ]) {
      issuer.address = address;
      const seen = await accept(one);
      assert.equal(noteOf(seen), "no-address", JSON.stringify(address));
      assert.match((await one.browser.get(seen.location)).text, /did not confirm that this address is yours/);
      assert.equal(await peopleOf(email), 0);
    }
    assert.ok(await isOpen(email));
    issuer.address = { email: email.toUpperCase(), email_verified: true };
    assert.equal((await accept(one)).location, "/", "case is no difference");
  });

  it("takes the address from the ID token where it is there, and never half of each", async () => {
    const one = await invited();
    issuer.address = { email: one.email, email_verified: true };
    issuer.tamper = (claims) => ({ ...claims, email: one.email });
    assert.equal(noteOf(await accept(one)), "no-address", "unverified in the token, verified in userinfo");
    issuer.address = {};
    issuer.tamper = (claims) => ({ ...claims, email: one.email, email_verified: true });
    assert.equal((await accept(one)).location, "/");
  });

  it("is refused when userinfo is of somebody else, or the nonce is another", async () => {
    const one = await invited();
    issuer.tamperUserinfo = (claims) => ({ ...claims, sub: "other" });
    assert.equal(noteOf(await accept(one)), "failed");
    issuer.tamperUserinfo = undefined;
    issuer.tamper = (claims) => ({ ...claims, nonce: "other" });
    assert.equal(noteOf(await accept(one)), "failed");
    assert.ok(await isOpen(one.email));
  });

  it("is used up once: by a second tab, a replayed callback, or both ways at once", async () => {
    const one = await invited();
    const [first, second] = [await visit(one), await visit(one)];
    const third = await visit(one);
    const seen = await Promise.all([first, second, first].map((callback) => one.browser.get(callback)));
    assert.equal(
      seen.filter(({ location }) => location === "/").length,
      1,
      seen.map(({ location }) => location).join(),
    );
    assert.equal(await peopleOf(one.email), 1);
    await one.browser.get(third);
    assert.equal(await peopleOf(one.email), 1);
    assert.equal((await world.browser().get(one.link)).status, 404);
  });

  it("is of no use once it was withdrawn, has expired, or was accepted, while the browser was away", async () => {
    for (const change of ["withdrawn_at = now()", "expires_at = now()", "accepted_at = now()"]) {
      const one = await invited();
      const callback = await visit(one);
      await world.database.sql(`UPDATE console.invitation SET ${change} WHERE email = '${one.email}'`);
      assert.equal((await one.browser.get(callback)).status, 404, change);
      assert.equal(await peopleOf(one.email), 0);
      assert.equal((await one.browser.post(`${one.link}/oidc`)).status, 404);
    }
  });

  it("is bound to the browser that has shown the link, and to the invitation", async () => {
    const one = await invited();
    const callback = await visit(one);
    const thief = world.browser();
    await thief.get("/sign-in");
    assert.equal(noteOf(await thief.get(callback)), "stale");
    // A sign-in that was begun elsewhere accepts nothing.
    const plain = world.browser();
    assert.equal(noteOf(await plain.get(await issuer.visit((await begin(plain)).href))), "unknown");
    assert.ok(await isOpen(one.email));
    const rows = await world.database.sql("SELECT a::text AS row FROM console.oidc_attempt AS a");
    const token = one.link.split("/").at(-1) ?? "";
    assert.ok(
      rows.every(({ row }) => !String(row).includes(token)),
      "the link is not kept where it can be read",
    );
  });

  it("takes nobody over: who is here already signs in by their own means", async () => {
    const somebody = await join(world, operator.browser, "acme", "viewer");
    world.neighbours.addAccount("second");
    const link = await invite(operator.browser, "second", somebody.email, "developer");
    issuer.subject = "attacker";
    issuer.address = { email: somebody.email, email_verified: true };
    const browser = world.browser();
    assert.match((await browser.get(link)).text, />Sign in<\/a>to accept it/);
    await browser.get("/sign-in");
    assert.equal((await browser.post(`${link}/oidc`)).location, link);
    // The person comes while the browser is away.
    const late = await invited();
    const callback = await visit(late);
    await late.browser.fill(late.link, passwords);
    const other = world.browser();
    const [row] = await world.database.sql(`SELECT count(*)::int AS n FROM console.identity`);
    await other.get(callback);
    await late.browser.get(callback);
    assert.deepEqual(await world.database.sql("SELECT count(*)::int AS n FROM console.identity"), [row]);
  });

  it("is refused when the account at the issuer is somebody's here", async () => {
    const first = await invited();
    await accept(first);
    const { subject } = issuer;
    const second = await invited();
    issuer.subject = subject;
    assert.equal(noteOf(await accept(second)), "taken");
    assert.ok(await isOpen(second.email));
  });

  it("is none for operators, who choose a password", async () => {
    const one = await invited("operator");
    assert.doesNotMatch((await one.browser.get(one.link)).text, /Accept with/);
    assert.equal((await one.browser.post(`${one.link}/oidc`)).location, one.link);
    const member = await invited();
    await accept(member);
    const link = await invite(operator.browser, "acme", member.email, "operator");
    await member.browser.get(link);
    assert.equal((await member.browser.post(link)).location, "/profile/first-password", "nor by somebody without one");
    await member.browser.get("/operator/people");
    assert.equal((await member.browser.get("/operator/people")).status, 403);
  });

  it("is accepted and linked by who is signed in, with the password alone", async () => {
    const somebody = await join(world, operator.browser, "acme", "viewer");
    world.neighbours.addAccount("third");
    const link = await invite(operator.browser, "third", somebody.email, "developer");
    issuer.subject = "of-somebody";
    const { browser, email } = somebody;
    const one = { email, link, browser };
    assert.equal((await press(one, { password: "wrong password" })).status, 422);
    const callback = await issuer.visit(leadsTo(await press(one, { password })).href);
    const thief = await join(world, operator.browser, "acme", "viewer");
    assert.notEqual((await thief.browser.get(callback)).location, "/");
    const seen = await browser.get(await issuer.visit(leadsTo(await press(one, { password })).href));
    assert.equal(seen.location, "/");
    assert.equal((await browser.get("/accounts/third")).status, 200);
    const again = world.browser();
    assert.equal((await again.get(await issuer.visit((await begin(again)).href))).location, "/");
  });

  it("goes back to its page when the issuer is away or the person did not want to", async () => {
    const one = await invited();
    issuer.refusal = "access_denied";
    const seen = await accept(one);
    assert.equal(seen.location, `${one.link}?note=cancelled`);
    assert.match((await one.browser.get(seen.location)).text, /says that you did not want to go on/);
  });
});

describe("somebody without a password", () => {
  const path = "/profile/first-password";

  it("sets one with a new sign-in at the issuer, and then what needs one", async () => {
    const one = await invited();
    await accept(one);
    const { browser } = one;
    await browser.get("/");
    assert.match((await browser.get("/profile")).text, />Set a password<\/a>/);
    assert.equal((await browser.get("/profile/password")).location, path);
    assert.equal((await browser.get("/profile/second-factor")).location, path);
    await browser.get("/profile/identities");
    assert.equal((await browser.post("/profile/identities/unlink", { issuer: issuer.url })).location, path);
    checkPage(await browser.get(path), path);
    assert.equal((await browser.post(path, { ...passwords, "repeat-password": "x" })).status, 422);
    const url = leadsTo(await browser.post(path, passwords));
    assert.equal(url.searchParams.get("prompt"), "login");
    const done = await browser.get(await issuer.visit(url.href));
    assert.equal(done.location, "/profile");
    assert.ok((await signIn(world, one.email)).cookies.has(sessionCookie));
    assert.equal((await browser.get(path)).location, "/profile/password");
    assert.equal((await browser.post(path, passwords)).status, 409);
  });

  it("sets none with an old sign-in there, somebody else's, or another session", async () => {
    const one = await invited();
    await accept(one);
    const { browser } = one;
    const { subject } = issuer;
    const leave = async (): Promise<string> => {
      await browser.get(path);
      return issuer.visit(leadsTo(await browser.post(path, passwords)).href);
    };
    issuer.tamper = (claims) => ({ ...claims, auth_time: 1 });
    assert.equal((await browser.get(await leave())).location, path);
    issuer.tamper = undefined;
    issuer.subject = "somebody-else";
    assert.equal((await browser.get(await leave())).location, path);
    issuer.subject = subject;
    const callback = await leave();
    browser.cookies.set(sessionCookie, operator.browser.cookies.get(sessionCookie) ?? "");
    await browser.get(callback);
    assert.equal((await signIn(world, one.email)).cookies.has(sessionCookie), false);
  });
});
