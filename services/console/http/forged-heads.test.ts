import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { after, before, describe, it } from "node:test";
import { startWorld, type World } from "../testing/console.ts";
import { join, setUp, type TestPerson } from "../testing/people.ts";

let world: World;
let owner: TestPerson;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => world[Symbol.asyncDispose]());

const forged = {
  "x-forwarded-host": "evil.example",
  "x-forwarded-server": "evil.example",
  "x-host": "evil.example",
  "x-original-url": "//evil.example/",
  "x-rewrite-url": "//evil.example/",
  forwarded: "for=198.51.100.9;host=evil.example;proto=https",
};

/** With a Host of the caller's choice, which fetch does not send. */
async function ask(path: string, host: string): Promise<{ status: number; text: string }> {
  const headers = { ...forged, host, "x-forwarded-for": owner.browser.address, "x-forwarded-proto": "https" };
  const asking = request({ port: world.app.httpPort, path, headers }).end();
  const [response] = (await once(asking, "response")) as [IncomingMessage];
  let text = JSON.stringify(response.headers);
  for await (const piece of response) text += String(piece);
  return { status: response.statusCode ?? 0, text };
}

describe("a host that a request makes up", () => {
  it("is in no address that a page, a redirect or a cookie tells", async () => {
    for (const host of ["evil.example", "console.example@evil.example", "evil.example:443"]) {
      for (const path of ["/", "/sign-in", "/accounts/acme", "/profile", "/nothing-here", "/invitations/x"]) {
        const { status, text } = await ask(path, host);
        assert.ok(status < 500, `${path} ${status}`);
        assert.doesNotMatch(text, /evil/, path);
      }
    }
  });

  it("is not in an invitation, which somebody else opens", async () => {
    await owner.browser.get("/accounts/acme/members");
    const fields = { email: "invited@example.org", role: "developer" };
    const made = await owner.browser.post("/accounts/acme/members", fields, forged);
    assert.match(made.text, /https:\/\/console\.example\/invitations\/[\w-]{43}/);
    assert.doesNotMatch(made.text, /evil/);
  });
});

describe("an address that a request makes up", () => {
  it("is not the one by which guesses are counted", async () => {
    const app = await world.startReplica({ GUESSES_PER_MINUTE: 3 });
    const browser = world.browser(app);
    const statuses: number[] = [];
    for (let count = 0; count < 4; count += 1) {
      await browser.get("/sign-in");
      const heads = { ...forged, "x-forwarded-for": `198.51.100.${count}, ${browser.address}` };
      statuses.push((await browser.post("/sign-in", { email: "a@example.org", password: "x" }, heads)).status);
    }
    assert.deepEqual(statuses, [422, 422, 422, 429]);
  });
});
