import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { domainRoles } from "../permissions.ts";
import type { Browser, SeenPage } from "../testing/browser.ts";
import type { World } from "../testing/console.ts";
import { startDnsServer, type DnsServer } from "#shared/testing/dns-server.ts";
import { begin, noteOf, sessionCookie, startIssuerWorld } from "../testing/issuer-world.ts";
import { startMailbox, type Mail, type Mailbox } from "../testing/mailbox.ts";
import type { Issuer } from "../testing/oidc-provider.ts";
import { checkPage } from "../testing/pages.ts";
import { idOf, invite, join, password, type TestPerson } from "../testing/people.ts";
import { until } from "#shared/testing/until.ts";
import { lookAtDomains } from "./look-again.ts";
import { createTxtRecords } from "../txt-records.ts";

const resources = new AsyncDisposableStack();
let world: World;
let issuer: Issuer;
let operator: TestPerson;
let dns: DnsServer;
let mailbox: Mailbox;
let number = 0;

before(async () => {
  dns = resources.use(await startDnsServer());
  mailbox = resources.use(await startMailbox());
  const mail = { SMTP_URL_FILE: mailbox.urlFile, MAIL_FROM: "relay@example.org" };
  const settings = { DOMAIN_SIGN_IN: "on", ...mail } as const;
  const started = await startIssuerWorld(settings, { dnsServers: [dns.address] });
  ({ world, issuer, operator } = resources.use(started));
});
after(() => resources.disposeAsync());
afterEach(() => Object.assign(dns, { failure: undefined }));

type Claim = { accountId: string; owner: TestPerson; path: string; domain: string };

/** An account of its own, with an owner. */
async function account(domain?: string): Promise<Claim> {
  number += 1;
  const accountId = `claimer-${number}`;
  world.neighbours.addAccount(accountId);
  const owner = await join(world, operator.browser, accountId, "owner");
  const path = `/accounts/${accountId}/members/domains`;
  return { accountId, owner, path, domain: domain ?? `company-${number}.example` };
}

async function claim({ owner, path }: Claim, domain: string, role = "viewer"): Promise<SeenPage> {
  await owner.browser.get(path);
  return owner.browser.post(path, { domain, role });
}

/** As somebody who controls the domain would, from what the page says. */
async function publish({ owner, path, domain }: Claim): Promise<void> {
  const { text } = await owner.browser.get(path);
  const pattern = new RegExp(`name<code>(_relay-console\\.${domain})</code>.*?>relay-console&#61;([\\w-]{43})<`);
  const [, name = "", token = ""] = pattern.exec(text) ?? [];
  assert.notEqual(name, "", text);
  const there = dns.records.get(name) ?? [["something else"]];
  dns.records.set(name, [...there, ["relay-console=", token.slice(0, 20), token.slice(20)]]);
}

/** Looks again at once, which people may not. */
async function verify({ owner, path, domain, accountId }: Claim, by: Browser = owner.browser): Promise<string> {
  const past = `UPDATE console.domain SET checked_at = now() - interval '1 minute' WHERE account_id = '${accountId}'`;
  await world.database.sql(past);
  await by.get(path);
  const seen = await by.post(`${path}/${domain}/verify`);
  return seen.location === "" ? seen.title : (await by.get(seen.location)).text;
}

async function claimed(role = "viewer", domain?: string): Promise<Claim> {
  const made = await account(domain);
  assert.equal((await claim(made, made.domain, role)).status, 303);
  await publish(made);
  assert.match(await verify(made), new RegExp(`${made.domain} is verified`));
  return made;
}

type Arrival = { browser: Browser; seen: SeenPage; note: string };

/** Somebody signs in whom the issuer says to have this address. */
async function arrive(email: unknown, isVerified: unknown = true, subject?: string): Promise<Arrival> {
  number += 1;
  issuer.subject = subject ?? `arriving-${number}`;
  issuer.address = isVerified === "missing" ? { email } : { email, email_verified: isVerified };
  const browser = world.browser();
  const seen = await browser.get(await issuer.visit((await begin(browser)).href));
  return { browser, seen, note: noteOf(seen) };
}

async function rolesOf(email: string): Promise<string[]> {
  const rows = await world.database.sql(
    `SELECT m.account_id || ' ' || m.role AS line FROM console.membership AS m JOIN console.person AS p
     USING (person_id) WHERE p.email = '${email}'`,
  );
  return rows.map(({ line }) => String(line));
}

describe("a claim of a domain", () => {
  it("counts once its record is found, and each step is in the account's audit log", async () => {
    const made = await account();
    const { owner, path, domain, accountId } = made;
    assert.match((await owner.browser.get(`/accounts/${accountId}/members`)).text, />Sign-in by domain<\/a>/);
    checkPage(await owner.browser.get(path), path);
    assert.equal((await claim(made, ` @${domain.toUpperCase()}. `)).status, 303);
    checkPage(await owner.browser.get(path), path);
    assert.match(await verify(made), /not there yet/);
    assert.equal((await arrive(`early@${domain}`)).note, "unknown");
    await publish(made);
    assert.match(await verify(made), /is verified/);
    checkPage(await owner.browser.get(path), path);
    await owner.browser.post(`${path}/${domain}/role`, { "new-role": "developer" });
    await owner.browser.post(`${path}/${domain}/remove`);
    const lines = await world.database.sql(
      `SELECT action FROM console.audit_entry WHERE account_id = '${accountId}' AND target = '${domain}' ORDER BY audit_id`,
    );
    assert.deepEqual(
      lines.map(({ action }) => action),
      ["domain.claim", "domain.verify", "domain.role", "domain.remove"],
    );
    assert.equal((await arrive(`late@${domain}`)).note, "unknown");
  });

  it("is refused for what is no domain, anybody's, or there already; roles that let people in are none", async () => {
    const made = await account();
    for (const domain of ["", "localhost", "127.0.0.1", "a b.example", "https://example.org", "gmail.com", "GMX.de."]) {
      assert.equal((await claim(made, domain)).status, 422, domain);
    }
    for (const role of ["owner", "admin", "operator", ""]) {
      assert.equal((await claim(made, made.domain, role)).status, 422, role);
    }
    assert.equal((await claim(made, made.domain)).status, 303);
    assert.equal((await claim(made, made.domain.toUpperCase())).status, 422);
    const { owner, path, domain } = made;
    assert.equal((await owner.browser.post(`${path}/${domain}/role`, { "new-role": "owner" })).status, 400);
    await owner.browser.get(path);
    const claims = Array.from({ length: 20 }, (_, at) =>
      owner.browser.post(path, { domain: `${at}.${domain}`, role: "viewer" }),
    );
    const taken = (await Promise.all(claims)).filter(({ status }) => status === 303);
    assert.equal(taken.length, 9, "ten in all, also of requests that come at once");
    assert.match((await claim(made, `more.${domain}`)).text, /at most 10 domains/);
  });

  it("is an owner's alone, and in the owner's account", async () => {
    const made = await claimed();
    const { accountId, path, domain } = made;
    for (const role of ["admin", "developer", "viewer"] as const) {
      const { browser } = await join(world, operator.browser, accountId, role);
      assert.equal((await browser.get(path)).status, 403, role);
      assert.equal((await browser.post(`${path}/${domain}/remove`)).status, 403);
    }
    const other = await account();
    await other.owner.browser.get(other.path);
    for (const end of ["verify", "role", "remove"]) {
      const seen = await other.owner.browser.post(`${other.path}/${domain}/${end}`, { "new-role": "developer" });
      assert.equal(seen.status, 404, end);
    }
  });

  it("of two accounts counts for who has the record, and for the first while both have it", async () => {
    const first = await account("contested.example");
    const second = await account("contested.example");
    await claim(first, "contested.example");
    await claim(second, "contested.example");
    await publish(second);
    assert.match(await verify(first), /not there yet/, "the record of another account is not one's own");
    assert.match(await verify(second), /is verified/);
    await publish(first);
    assert.match(await verify(first), /Another account has this domain/);
    await arrive("somebody@contested.example");
    assert.deepEqual(await rolesOf("somebody@contested.example"), [`${second.accountId} viewer`]);
    await second.owner.browser.post(`${second.path}/contested.example/remove`);
    assert.match(await verify(first), /is verified/);
  });

  it("asks DNS for one name, not at once again, and not for as many as somebody likes", async () => {
    const made = await account();
    await claim(made, made.domain);
    const { owner, path, domain } = made;
    dns.asked.length = 0;
    const seen = await owner.browser.post(`${path}/${domain}/verify`);
    assert.match((await owner.browser.get(seen.location)).text, /looked for just now/);
    assert.deepEqual(dns.asked, []);
    await verify(made);
    assert.deepEqual(dns.asked, [`_relay-console.${domain}`]);
    const app = await world.startReplica({ GUESSES_PER_MINUTE: 2 });
    const browser = world.browser(app);
    await browser.fill("/sign-in", { email: owner.email, password });
    await browser.get(path);
    await browser.post(`${path}/${domain}/verify`);
    assert.equal((await browser.post(`${path}/${domain}/verify`)).status, 429);
  });

  it("is not verified by a server that fails, which is said as it is", async () => {
    const made = await account();
    await claim(made, made.domain);
    await publish(made);
    dns.failure = "servfail";
    assert.match(await verify(made), /DNS did not answer/);
  });

  it("is nobody's while operators have it switched off", async () => {
    const made = await claimed();
    const app = await world.startReplica({ DOMAIN_SIGN_IN: "off" });
    const browser = world.browser(app);
    await browser.fill("/sign-in", { email: made.owner.email, password });
    assert.equal((await browser.get(made.path)).status, 404);
    assert.doesNotMatch((await browser.get(`/accounts/${made.accountId}/members`)).text, /by domain/);
    issuer.subject = "off";
    issuer.address = { email: `off@${made.domain}`, email_verified: true };
    const arriving = world.browser(app);
    const url = await begin(arriving);
    assert.equal(url.searchParams.get("scope"), "openid");
    assert.equal(noteOf(await arriving.get(await issuer.visit(url.href))), "unknown");
  });
});

describe("who signs in with an address in a verified domain", () => {
  it("becomes a member with its role, once, and is who they are from then on", async () => {
    for (const role of domainRoles) {
      const { domain, accountId } = await claimed(role);
      const email = `new@${domain}`;
      const { browser, seen } = await arrive(email, true, `new-${role}`);
      assert.equal(seen.location, "/");
      const page = await browser.get(`/accounts/${accountId}`);
      assert.match(page.text, new RegExp(`Welcome\\. Your address in ${domain} makes you ${role}`));
      assert.deepEqual(await rolesOf(email), [`${accountId} ${role}`]);
      const personId = await idOf(world, email);
      const lines = await world.database.sql(
        `SELECT action, after FROM console.audit_entry WHERE person_id = '${personId}' ORDER BY audit_id`,
      );
      assert.deepEqual(
        lines.map(({ action }) => action),
        ["identity.link", "member.join", "sign-in"],
      );
      assert.deepEqual(lines[1]?.["after"], { email, role, domain, by: issuer.url });
      await world.database.sql(`DELETE FROM console.membership WHERE person_id = '${personId}'`);
      assert.equal((await arrive(email, true, `new-${role}`)).seen.location, "/", "the same person");
      assert.deepEqual(await rolesOf(email), [], "who was removed is not taken in again");
    }
  });

  it("is nobody by an address that is not checked, not there, or only looks like one of the domain", async () => {
    const { domain } = await claimed();
    const address = `a@${domain}`;
    const tries: [unknown, unknown][] = [
      [address, "missing"],
      [address, "true"],
      [address, 1],
      [address, false],
      [[address], true],
      [undefined, true],
      [`a@sub.${domain}`, true],
      [`a@x${domain}`, true],
      [`a@${domain}.evil.example`, true],
      [`a@${domain}.`, true],
      [`a@evil.example@${domain}`, true],
      [`"a@${domain}"@evil.example`, true],
      [`a@${domain}\n`, true],
      [`a @${domain}`, true],
      [`@${domain}`, true],
      [`a@${domain.replace("o", "%6f")}`, true],
      [`a@${domain.replace("a", "а")}`, true],
      [`<a@${domain}>`, true],
    ];
    const count = async () => (await world.database.sql("SELECT FROM console.person")).length;
    const before = await count();
    for (const [email, isVerified] of tries) {
      const { note, browser } = await arrive(email, isVerified);
      assert.equal(note, "unknown", JSON.stringify([email, isVerified]));
      assert.ok(!browser.cookies.has(sessionCookie));
    }
    assert.equal(await count(), before);
  });

  it("is one person in every case and spelling of the domain", async () => {
    const made = await account("xn--bcher-kva.example");
    const { accountId } = made;
    await claim(made, "Bücher.example");
    await publish(made);
    assert.match(await verify(made), /is verified/);
    assert.equal((await arrive("First@BÜCHER.example")).note, "/");
    assert.deepEqual(await rolesOf("first@xn--bcher-kva.example"), [`${accountId} viewer`]);
    for (const email of ["first@bücher.example", "FIRST@xn--BCHER-kva.example", "first@xn--bcher-kva.example"]) {
      assert.equal((await arrive(email)).note, "unknown", `another account at the issuer with ${email}`);
    }
    const typed = await invite(operator.browser, accountId, "second@bücher.example", "developer");
    assert.equal((await arrive("second@xn--bcher-kva.example")).note, "invited", "in the other letters, too");
    assert.match(typed, /invitations/);
  });

  it("takes nobody over who is here, member or not, whatever the issuer says", async () => {
    const { domain, accountId } = await claimed("developer");
    const other = await account();
    const email = `known@${domain}`;
    const link = await invite(other.owner.browser, other.accountId, email, "owner");
    const known = world.browser();
    await known.fill(link, { "new-password": password, "repeat-password": password });
    const { note, browser } = await arrive(email);
    assert.equal(note, "unknown");
    assert.ok(!browser.cookies.has(sessionCookie));
    assert.deepEqual(await rolesOf(email), [`${other.accountId} owner`], `not in ${accountId}`);
  });

  it("who is invited to the account opens the link, which says what an owner wants of them", async () => {
    const { domain, accountId, owner } = await claimed("developer");
    const email = `guest@${domain}`;
    await invite(owner.browser, accountId, email, "viewer");
    const { note, browser, seen } = await arrive(email);
    assert.equal(note, "invited");
    assert.match((await browser.get(seen.location)).text, /open the link of the invitation/);
    await world.database.sql(`UPDATE console.invitation SET withdrawn_at = now() WHERE email = '${email}'`);
    assert.equal((await arrive(email)).note, "/");
  });

  it("is refused once an account gets too many in a day, and once for one of two at once", async () => {
    const { domain, accountId } = await claimed();
    issuer.subject = "twice";
    issuer.address = { email: `twice@${domain}`, email_verified: true };
    const browsers = [world.browser(), world.browser()];
    const callbacks: string[] = [];
    for (const browser of browsers) callbacks.push(await issuer.visit((await begin(browser)).href));
    await Promise.all(browsers.map((browser, index) => browser.get(callbacks[index] ?? "")));
    assert.deepEqual(await rolesOf(`twice@${domain}`), [`${accountId} viewer`]);
    await world.database.sql(`
      WITH made AS (
        INSERT INTO console.person (person_id, email, password_hash)
        SELECT gen_random_uuid(), 'crowd-' || n || '@other.example', 'x' FROM generate_series(1, 200) AS n
        RETURNING person_id)
      INSERT INTO console.membership (person_id, account_id, role)
      SELECT person_id, '${accountId}', 'viewer' FROM made`);
    assert.equal((await arrive(`last@${domain}`)).note, "refused");
  });

  it("is taken in by no rule whose owner has left, until another owner stands for it", async () => {
    const made = await claimed();
    const { accountId, owner, path, domain } = made;
    const heir = await join(world, operator.browser, accountId, "owner");
    await heir.browser.get(`/accounts/${accountId}/members`);
    await heir.browser.post(`/accounts/${accountId}/members/${owner.personId}/role`, { "new-role": "viewer" });
    assert.equal((await arrive(`orphan@${domain}`)).note, "unknown");
    assert.match((await heir.browser.get(path)).text, /is no owner any more/);
    assert.match(await verify(made, heir.browser), /is verified/);
    assert.equal((await arrive(`orphan@${domain}`)).note, "/");
    await world.database.sql(`UPDATE console.person SET status = 'stopped' WHERE person_id = '${heir.personId}'`);
    assert.equal((await arrive(`second@${domain}`)).note, "unknown", "nor by one whose owner was stopped");
  });
});

describe("the daily look", () => {
  const look = async (): Promise<void> => {
    const log = createLog("test", "silent");
    await using pool = createPool(world.database.url, "test", () => undefined);
    const txtRecords = createTxtRecords([dns.address]);
    const mailer = { send: async () => undefined } as never;
    await lookAtDomains({ pool, log, txtRecords, mailer, clock: { nowMs: Date.now } as never });
  };
  const age = async (domain: string, found: string): Promise<void> => {
    const past = `found_at = now() - interval '${found}', checked_at = now() - interval '2 hours'`;
    await world.database.sql(`UPDATE console.domain SET ${past} WHERE domain = '${domain}'`);
  };
  const stateOf = async (domain: string) => {
    const rows = await world.database.sql(
      `SELECT verified_at IS NOT NULL AS "isOn", found_at > now() - interval '1 hour' AS "isFresh"
       FROM console.domain WHERE domain = '${domain}'`,
    );
    return { ...rows[0] };
  };

  it("keeps a rule whose record is there", async () => {
    const { domain } = await claimed();
    await age(domain, "25 hours");
    await look();
    assert.deepEqual(await stateOf(domain), { isOn: true, isFresh: true });
  });

  it("ends a rule days after the record was last found, tells the owners, and frees the domain", async () => {
    const made = await claimed();
    const { domain, accountId, owner, path } = made;
    dns.records.delete(`_relay-console.${domain}`);
    await age(domain, "49 hours");
    await look();
    assert.deepEqual(await stateOf(domain), { isOn: true, isFresh: false });
    assert.match((await owner.browser.get(path)).text, /record missing/);
    assert.equal((await arrive(`grace@${domain}`)).note, "/");
    await age(domain, "73 hours");
    assert.equal((await arrive(`over@${domain}`)).note, "unknown", "also before anybody has looked");
    await look();
    assert.deepEqual(await stateOf(domain), { isOn: false, isFresh: false });
    const [line] = await world.database.sql(
      `SELECT email, target FROM console.audit_entry WHERE account_id = '${accountId}' AND action = 'domain.lapse'`,
    );
    assert.equal(line?.["target"], domain);
    const isTold = ({ to, text }: Mail): boolean => to.includes(owner.email) && /by this domain any more/.test(text);
    await until("the owners are told", () => mailbox.mails.some(isTold));
    const other = await account(domain);
    await claim(other, domain);
    await publish(other);
    assert.match(await verify(other), /is verified/);
  });

  it("ends it, too, when DNS has said nothing for as long: nobody may have the domain then", async () => {
    const { domain } = await claimed();
    dns.failure = "servfail";
    await age(domain, "73 hours");
    await look();
    assert.deepEqual(await stateOf(domain), { isOn: false, isFresh: false });
  });
});

it("DNS is asked by at most eight at once, and a server that is silent holds nobody for long", async () => {
  await using silent = await startDnsServer();
  silent.failure = "silence";
  const ask = createTxtRecords([silent.address]);
  const answers = Array.from({ length: 9 }, (_, index) => ask(`${index}.example`));
  assert.equal(await answers.pop(), "busy");
  assert.deepEqual(new Set(await Promise.all(answers)), new Set(["unknown"]));
  silent.failure = undefined;
  assert.equal(await ask("none.example"), "absent");
});
