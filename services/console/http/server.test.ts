import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { ServiceError } from "#shared/process/errors.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { problems } from "../html/problem.ts";
import { checkPage } from "../testing/pages.ts";
import { startWorld, type World } from "../testing/console.ts";
import { join, setUp, type TestPerson } from "../testing/people.ts";

let world: World;
let owner: TestPerson;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => world[Symbol.asyncDispose]());

describe("what every answer carries", () => {
  it("cookies are __Host-, Secure, HttpOnly and SameSite=Lax, and have no end of their own", async () => {
    const lines = (await world.browser().get("/sign-in")).headers.getSetCookie();
    await owner.browser.get("/profile");
    const signedIn = await world.browser().fill("/sign-in", { email: owner.email, password: "x" });
    for (const line of [...lines, ...signedIn.headers.getSetCookie()]) {
      assert.match(line, /^__Host-csrf=[\w-]+; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
    }
    const browser = world.browser();
    const password = "correct horse battery staple";
    const done = await browser.fill("/sign-in", { email: owner.email, password });
    const [line = ""] = done.headers.getSetCookie().filter((one) => one.includes("session"));
    assert.match(line, /^__Host-session=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  });

  it("the policy allows neither frames nor inline script nor anything from elsewhere", async () => {
    const { headers } = await world.browser().get("/sign-in");
    const policy = headers.get("content-security-policy") ?? "";
    for (const directive of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]) {
      assert.ok(policy.split(";").includes(directive), `${directive} in ${policy}`);
    }
    assert.ok(!policy.includes("unsafe"), policy);
    assert.match(headers.get("strict-transport-security") ?? "", /max-age=\d{8}/);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("x-frame-options"), "DENY");
    assert.equal(headers.get("referrer-policy"), "same-origin");
    assert.equal(headers.get("x-powered-by"), null);
  });

  it("the style sheet is kept for a year under an address that changes with it; nothing else is", async () => {
    const page = await world.browser().get("/sign-in");
    const address = /<link rel="stylesheet" href="(\/static\/[0-9a-f]{16}\/frame\.css)"/.exec(page.text)?.[1] ?? "";
    const style = await world.browser().get(address);
    assert.equal(style.status, 200);
    assert.match(style.headers.get("content-type") ?? "", /^text\/css/);
    assert.equal(style.headers.get("cache-control"), "public, max-age=31536000, immutable");
    assert.equal(page.headers.get("cache-control"), "no-store");
    const other = await world.browser().get(address.replace(/[0-9a-f]{16}/, "0".repeat(16)));
    assert.equal(other.status, 404);
    assert.equal((await world.browser().get(`${address}/../../main.ts`)).status, 404);
  });
});

describe("every page", () => {
  it("has one heading, landmarks, labels, and nothing inline", async () => {
    world.neighbours.addKey("acme", "a key");
    const [key = ""] = world.neighbours.keys.keys();
    const pages = ["/", "/accounts", "/accounts/acme", "/accounts/acme/keys", "/accounts/acme/keys/new"];
    pages.push(`/accounts/acme/keys/${key}`, `/accounts/acme/keys/${key}/delete`, "/accounts/acme/members");
    pages.push(`/accounts/acme/members/${owner.personId}/remove`, "/profile", "/profile/password");
    pages.push("/profile/second-factor", "/profile/sessions", "/nothing-here");
    for (const path of pages) {
      const seen = await owner.browser.get(path);
      if (seen.status !== 303) checkPage(seen, path);
    }
    const ofOperators = ["accounts", "accounts/new", "accounts/acme", "people", "audit", "audit?from=nonsense"];
    for (const path of ofOperators) checkPage(await operator.browser.get(`/operator/${path}`), path);
    for (const path of ["/sign-in", "/setup"]) checkPage(await world.browser().get(path), path);
  });

  it("of a form that was not right says so first and at each field, which keeps what was typed but no password", async () => {
    const { browser } = owner;
    const wrong = { name: "", limit: "1.2.3", "last-day": "2027-02-30", models: "m" };
    const seen = await browser.fill("/accounts/acme/keys/new", wrong);
    assert.equal(seen.status, 422);
    checkPage(seen, "wrong key");
    assert.match(seen.text, /role="alert"[^]*<a href="#name">Give a name\.<\/a>/);
    for (const name of ["name", "limit", "last-day"]) {
      assert.match(seen.text, new RegExp(`id="${name}"[^>]*aria-describedby="[^"]*${name}-error" aria-invalid="true"`));
    }
    assert.match(seen.text, /id="limit"[^>]*value="1\.2\.3"/);
    const refused = await world.browser().fill("/sign-in", { email: "a@example.org", password: "typed-password" });
    assert.match(refused.text, /value="a@example\.org"/);
    assert.doesNotMatch(refused.text, /typed-password/);
  });
});

describe("what is refused", () => {
  it("plain HTTP, unless it is allowed and comes from this machine itself", async () => {
    const plain = { "x-forwarded-proto": "http" };
    assert.equal((await world.browser().get("/sign-in", plain)).status, 403);
    const local = await world.startReplica({ ALLOW_PLAIN_HTTP: "loopback", PUBLIC_URL: "http://localhost:8090" });
    const direct = await fetch(`http://127.0.0.1:${local.httpPort}/sign-in`);
    assert.equal(direct.status, 200);
    const [cookie = ""] = direct.headers.getSetCookie();
    assert.match(cookie, /^csrf=[\w-]+; Path=\/; HttpOnly; SameSite=Lax$/);
    assert.doesNotMatch(direct.headers.get("content-security-policy") ?? "", /upgrade-insecure/);
    assert.equal((await world.browser(local).get("/sign-in", plain)).status, 403);
    const never = await world.startReplica({ TRUSTED_PROXIES: "" });
    assert.equal((await fetch(`http://127.0.0.1:${never.httpPort}/sign-in`)).status, 403);
    assert.equal((await world.browser(never).get("/sign-in")).status, 403, "nobody is believed who is not trusted");
  });

  it("a form that another site sent, and the token of another session", async () => {
    const { browser } = owner;
    await browser.get("/accounts/acme/keys/new");
    const fields = { name: "stolen", limit: "", "last-day": "", models: "" };
    for (const site of ["cross-site", "same-site"]) {
      const seen = await browser.post("/accounts/acme/keys/new", fields, { "sec-fetch-site": site });
      assert.equal(seen.status, 403, site);
    }
    // The attacker's own token with the attacker's own cookie, which a subdomain may have put in place.
    await operator.browser.get("/profile");
    browser.cookies.set("__Host-csrf", operator.browser.cookies.get("__Host-csrf") ?? "");
    const seen = await browser.post("/accounts/acme/keys/new", { ...fields, csrf: operator.browser.csrf() });
    assert.equal(seen.title, problems["stale-form"].title);
    assert.ok(!world.neighbours.received.some(({ request }) => "name" in request && request.name === "stolen"));
    const right = { ...fields, name: "mine" };
    const own = await browser.fill("/accounts/acme/keys/new", right);
    assert.equal(own.status, 200);
  });

  it("bodies above 64 KiB, other kinds of bodies, and paths that are none", async () => {
    const browser = world.browser();
    await browser.get("/sign-in");
    const large = await browser.post("/sign-in", { email: "a".repeat(70_000) });
    assert.equal(large.status, 413);
    checkPage(large, "too large");
    const json = await fetch(`http://127.0.0.1:${world.app.httpPort}/sign-in`, {
      method: "POST",
      body: "{}",
      headers: { "content-type": "application/json", "x-forwarded-proto": "https" },
    });
    assert.equal(json.status, 400);
    const paths = [
      "/%zz",
      `/${"a".repeat(2_000)}`,
      "/accounts/acme/../acme/nothing",
      "/toString",
      `/invitations/${"a".repeat(2_000)}`,
    ];
    for (const path of paths) {
      const seen = await owner.browser.get(path);
      assert.equal(seen.status, 404, path);
      checkPage(seen, path);
    }
  });

  it("ids that are none, and characters that PostgreSQL cannot store", async () => {
    const none = "-".repeat(36);
    const paths = [`/accounts/acme/members/${none}/remove`, `/accounts/acme/top-up/${"0".repeat(36)}`];
    for (const path of paths) assert.equal((await owner.browser.get(path)).status, 404, path);
    await owner.browser.get("/profile/sessions");
    assert.equal((await owner.browser.post(`/profile/sessions/${none}/end`)).status, 404);
    await operator.browser.get("/operator/people");
    assert.equal((await operator.browser.post(`/operator/people/${none}/stop`)).status, 404);
    assert.equal((await operator.browser.get("/operator/people?after=%00")).status, 200);
    const seen = await world.browser().fill("/sign-in", { email: "some\0body@example.org", password: "a\0b" });
    assert.equal(seen.status, 422);
  });

  it("an address to go on to that is not of this console", async () => {
    for (const next of [
      "https://evil.example",
      "//evil.example",
      "/\\evil.example",
      "/a//evil",
      "/%2F",
      "javascript:1",
    ]) {
      const browser = world.browser();
      const page = await browser.get(`/sign-in?next=${encodeURIComponent(next)}`);
      assert.match(page.text, /name="next" value="\/"/, next);
      const done = await browser.post("/sign-in", {
        email: owner.email,
        password: "correct horse battery staple",
        next,
      });
      assert.equal(done.location, "/", next);
    }
  });

  it("a field that comes twice counts as missing", async () => {
    const seen = await owner.browser.fill("/accounts/acme/keys/new", { name: ["a", "b"], models: "", limit: "" });
    assert.equal(seen.status, 422);
    assert.match(seen.text, /Give a name/);
  });
});

describe("when something is away", () => {
  it("auth-quota or billing: a page with 503 that says what to do, and nothing of the inside", async () => {
    world.neighbours.failure = new ServiceError("unavailable", "redis 10.1.2.3 is away");
    try {
      for (const path of ["/accounts/acme", "/accounts/acme/keys"]) {
        const seen = await owner.browser.get(path);
        assert.equal(seen.status, 503);
        assert.equal(seen.title, problems.unavailable.title);
        assert.equal(seen.headers.get("retry-after"), "60");
        assert.doesNotMatch(seen.text, /redis|10\.1\.2\.3/);
        checkPage(seen, path);
      }
      world.neighbours.failure = new ServiceError("internal", "secret detail");
      const seen = await owner.browser.get("/accounts/acme");
      assert.equal(seen.status, 500);
      assert.doesNotMatch(seen.text, /secret detail/);
    } finally {
      world.neighbours.failure = undefined;
    }
    assert.equal((await owner.browser.get("/accounts/acme")).status, 200);
  });

  it("PostgreSQL: 503 and not ready, then on again; it may also be away at the start", async () => {
    await using stores = await startStores({ postgres: true });
    const away = new URL(stores.postgres.url);
    away.pathname = "/nothing-yet";
    const app = await world.startReplica({ DATABASE_URL: away.href });
    const browser = world.browser(app);
    browser.cookies.set("__Host-session", "A".repeat(43));
    assert.equal((await fetch(`http://127.0.0.1:${app.opsPort}/readyz`)).status, 503);
    await stores.postgres.kill();
    const seen = await browser.get("/profile");
    assert.equal(seen.status, 503, seen.text);
    checkPage(seen, "no database");
    assert.equal((await fetch(`http://127.0.0.1:${world.app.opsPort}/readyz`)).status, 200);
  });
});

it("the log names patterns of paths only, and metrics count by them", async () => {
  const token = "x".repeat(43);
  await world.browser().get(`/invitations/${token}`);
  await until("the request is logged", () => world.logText().includes("/invitations/:token"));
  assert.ok(!world.logText().includes(token));
  const metrics = await (await fetch(`http://127.0.0.1:${world.app.opsPort}/metrics`)).text();
  assert.match(metrics, /console_request_duration_seconds_count\{[^}]*path="\/invitations\/:token"[^}]*\} \d/);
});

it("a connection on which many requests are sent ahead is closed and not served", { timeout: 60_000 }, async () => {
  const socket = connect(world.app.httpPort, "127.0.0.1");
  let got = "";
  socket.on("data", (bytes) => (got += String(bytes)));
  socket.on("error", () => undefined);
  const closed = once(socket, "close");
  socket.write("GET /sign-in HTTP/1.1\r\nhost: a\r\nx-forwarded-proto: https\r\n\r\n".repeat(500));
  await closed;
  assert.equal(got, "");
});

it("a stop lets a request in hand end, and takes no other", async () => {
  const app = await world.startReplica({ DRAIN_MS: 5_000 });
  const socket = connect(app.httpPort, "127.0.0.1");
  let answer = "";
  socket.on("data", (chunk) => (answer += chunk.toString()));
  socket.on("error", () => undefined);
  const head = "POST /sign-in HTTP/1.1\r\nhost: a\r\nx-forwarded-proto: https\r\ncontent-length: 3\r\n";
  socket.write(`${head}content-type: application/x-www-form-urlencoded\r\n\r\n`);
  await until("the request is in hand", () => socket.bytesWritten > 0 && !socket.connecting);
  await until("it is counted", async () => (await fetch(`http://127.0.0.1:${app.opsPort}/livez`)).ok);
  const stopped = app[Symbol.asyncDispose]();
  socket.write("a=b");
  await until("it is answered", () => answer.startsWith("HTTP/1.1 403"));
  await stopped;
  await assert.rejects(fetch(`http://127.0.0.1:${app.httpPort}/sign-in`));
});
