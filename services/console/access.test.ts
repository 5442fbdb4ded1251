import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Deps } from "./deps.ts";
import { memberRoles, permissions, type Role } from "./permissions.ts";
import { problems } from "./html/problem.ts";
import type { Route } from "./html/route.ts";
import { allRoutes } from "./routes.ts";
import type { Browser, SeenPage } from "./testing/browser.ts";
import { startWorld, type World } from "./testing/console.ts";
import { join, setUp, type TestPerson } from "./testing/people.ts";

// Pages are only listed here, not answered.
const routes = allRoutes({} as Deps);

let world: World;
let people: Record<Role, TestPerson>;
let stranger: TestPerson;
let victim: TestPerson;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  for (const accountId of ["acme", "other"]) world.neighbours.addAccount(accountId);
  const role = (name: Role) => join(world, operator.browser, "acme", name);
  people = {
    operator,
    owner: await role("owner"),
    admin: await role("admin"),
    developer: await role("developer"),
    billing: await role("billing"),
    viewer: await role("viewer"),
  };
  // There is another owner, so that the one of the test may be changed.
  await role("owner");
  victim = await role("developer");
  stranger = await join(world, operator.browser, "other", "owner");
});
after(() => world[Symbol.asyncDispose]());

const nobodysId = "00000000-0000-4000-8000-000000000000";

function pathOf({ url }: Route, accountId = "acme"): string {
  const keyId = [...world.neighbours.keys.keys()].at(-1) ?? "none";
  return url
    .replace(":accountId", accountId)
    .replace(":keyId", keyId)
    .replace(":rid", "019a9f3c-0000-7000-8000-000000000001")
    .replace(":taskId", `video_${"0".repeat(32)}`)
    .replace(":personId", victim.personId)
    .replace(/:invitationId|:sessionId|:topUpId|:batchId/, nobodysId)
    .replace(":id", url.startsWith("/operator/people") ? nobodysId : "acme")
    .replace(":domain", "example.org")
    .replace(":token", "t".repeat(43));
}

async function ask(browser: Browser, route: Route, accountId?: string): Promise<SeenPage> {
  const path = pathOf(route, accountId);
  if (route.method === "GET") return browser.get(path);
  await browser.get(browser.cookies.has("__Host-session") ? "/profile" : "/sign-in");
  return browser.post(path, { "new-role": "developer" });
}

const isProblem = ({ title }: SeenPage, name: keyof typeof problems): boolean => title === problems[name].title;
const named = ({ method, url }: Route): string => `${method} ${url}`;
const actionOf = ({ access }: Route) => (typeof access === "object" ? access : undefined);

describe("who may come", () => {
  it("every route below /accounts/:accountId and /operator names an action of the table", () => {
    for (const route of routes) {
      const isGuarded = /^\/(accounts\/:|operator)/.test(route.url);
      assert.equal(actionOf(route) !== undefined, isGuarded, named(route));
      assert.equal(actionOf(route)?.isInAccount ?? false, route.url.startsWith("/accounts/:"), named(route));
    }
    const used = new Set(routes.map((route) => actionOf(route)?.action).filter((action) => action !== undefined));
    assert.deepEqual([...used].toSorted(), Object.keys(permissions).toSorted());
  });

  for (const route of routes.filter(({ access }) => access !== "everybody")) {
    it(`${named(route)} without a session leads to the sign-in`, async () => {
      const seen = await ask(world.browser(), route);
      assert.equal(seen.status, 303, seen.text);
      assert.match(seen.location, /^\/sign-in/);
    });
  }

  for (const route of routes.filter(({ method }) => method === "POST")) {
    it(`${named(route)} without the right CSRF token is refused, whoever sends it`, async () => {
      for (const browser of [people.operator.browser, people.owner.browser, world.browser()]) {
        await browser.get("/sign-in");
        for (const csrf of ["", "no-token", world.browser().csrf()]) {
          const seen = await browser.post(pathOf(route), { csrf });
          assert.equal(seen.status, 403);
          assert.ok(isProblem(seen, "stale-form"), seen.text);
        }
      }
    });
  }

  for (const route of routes.filter((one) => actionOf(one)?.isInAccount)) {
    it(`${named(route)} is not found by an owner of another account, as if there were no such account`, async () => {
      world.neighbours.addKey("acme", "theirs");
      const before = world.neighbours.received.length;
      const foreign = await ask(stranger.browser, route);
      const unknown = await ask(stranger.browser, route, "no-such-account");
      assert.equal(foreign.status, 404);
      assert.equal(unknown.status, 404);
      assert.equal(foreign.text, unknown.text);
      assert.equal(world.neighbours.received.length, before);
    });
  }

  for (const route of routes.filter((one) => actionOf(one) !== undefined)) {
    const { action, isInAccount } = actionOf(route) ?? { action: "audit.view", isInAccount: false };
    for (const role of [...memberRoles, "operator"] as const) {
      const allowed: readonly Role[] = permissions[action];
      const isAllowed = allowed.includes(role);
      it(`${named(route)} is ${isAllowed ? "open" : "closed"} to ${isInAccount ? role : `a person who is ${role}`}`, async () => {
        world.neighbours.addKey("acme", "one more");
        const before = world.neighbours.received.length;
        const seen = await ask(people[role].browser, route);
        assert.equal(isProblem(seen, "not-allowed"), !isAllowed, seen.text);
        if (isAllowed) return;
        assert.equal(seen.status, 403);
        assert.equal(world.neighbours.received.length, before);
      });
    }
  }

  it("a key of another account is not found below the own account", async () => {
    const foreign = world.neighbours.addKey("other", "foreign");
    const { browser } = people.owner;
    assert.equal((await browser.get(`/accounts/acme/keys/${foreign}`)).status, 404);
    await browser.get("/profile");
    for (const event of ["", "/stop", "/activate", "/delete"]) {
      const seen = await browser.post(`/accounts/acme/keys/${foreign}${event}`, { name: "taken" });
      assert.equal(seen.status, 404, event);
    }
    assert.equal(world.neighbours.keys.get(foreign)?.name, "foreign");
  });

  it("a member of another account, its invitations and another's sessions are not found below one's own", async () => {
    const { browser } = people.owner;
    await browser.get("/profile");
    const member = `/accounts/acme/members/${stranger.personId}`;
    assert.equal((await browser.post(`${member}/role`, { "new-role": "developer" })).status, 404);
    assert.equal((await browser.post(`${member}/remove`)).status, 404);
    await stranger.browser.get("/accounts/other/members");
    await stranger.browser.post("/accounts/other/members", { email: "invited@example.org", role: "developer" });
    const [invitation] = await world.database.sql(
      "SELECT invitation_id AS id FROM console.invitation WHERE email = 'invited@example.org'",
    );
    const withdraw = `/accounts/acme/members/invitations/${String(invitation?.["id"])}/withdraw`;
    assert.equal((await browser.post(withdraw)).status, 404);
    const [session] = await world.database.sql(
      `SELECT session_id AS id FROM console.session WHERE person_id = '${stranger.personId}'`,
    );
    assert.equal((await browser.post(`/profile/sessions/${String(session?.["id"])}/end`)).status, 404);
    assert.equal((await stranger.browser.get("/accounts/other")).status, 200);
  });
});

it("an admin makes, changes and removes no owner", async () => {
  const { browser } = people.admin;
  const members = "/accounts/acme/members";
  await browser.get(members);
  const owner = `${members}/${people.owner.personId}`;
  const tries: [string, Record<string, string>][] = [
    [members, { email: "another-owner@example.org", role: "owner" }],
    [`${owner}/role`, { "new-role": "developer" }],
    [`${owner}/remove`, {}],
    [`${members}/${people.developer.personId}/role`, { "new-role": "owner" }],
    [`${members}/${people.admin.personId}/role`, { "new-role": "owner" }],
  ];
  for (const [path, fields] of tries) assert.equal((await browser.post(path, fields)).status, 403, path);
  const invited = await browser.post(members, { email: "books@example.org", role: "billing" });
  assert.equal(invited.title, "Invitation made");
});

it("the README shows the table of permissions as it is", async () => {
  const readme = await readFile(joinPath(import.meta.dirname, "README.md"), "utf8");
  const roles = [...memberRoles, "operator"] as const;
  const rows = Object.entries(permissions).map(([action, allowed]: [string, readonly Role[]]) => {
    return `| \`${action}\` | ${roles.map((role) => (allowed.includes(role) ? "yes" : "")).join(" | ")} |`;
  });
  const table = [`| action | ${roles.join(" | ")} |`, `|---|${roles.map(() => "---|").join("")}`, ...rows].join("\n");
  assert.ok(readme.includes(`<!-- roles:start -->\n\n${table}\n\n<!-- roles:end -->`), table);
});
