import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { FindKeysRequest } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { createRid } from "#shared/money/rid.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

const wrong = `"><script>alert(1)</script>&amp;'`;
const path = "/operator/search";

let world: World;
let operator: TestPerson;
let owner: TestPerson;
let keyId: string;
let rid: string;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.neighbours.addAccount("acme", "Acme Incorporated");
  world.neighbours.addAccount("evil", wrong);
  owner = await join(world, operator.browser, "acme", "owner");
  keyId = world.neighbours.addKey("acme", "the key of acme");
  rid = world.neighbours.usage.bookCall("acme", Date.now());
});
after(() => world[Symbol.asyncDispose]());

async function search(text: string) {
  const seen = await operator.browser.fill(path, { text });
  checkPage(seen, text);
  return seen;
}

describe("what an operator looks for", () => {
  it("is found by an account's id or a part of its name, in any case", async () => {
    for (const text of ["acme", "INCORP", " Acme Inc "]) {
      const { text: html } = await search(text);
      assert.match(html, /<a href="\/operator\/accounts\/acme">Acme Incorporated<\/a>/, text);
      assert.doesNotMatch(html, /accounts\/evil/);
    }
  });

  it("is found by the first characters of a key, from six on, and by the key id", async () => {
    const found = /<th scope="row">the key of acme<\/th>.*<a href="\/operator\/accounts\/acme">acme<\/a>/;
    assert.match((await search("sk-abc")).text, found);
    assert.match((await search(keyId)).text, found);
    assert.match((await search("sk-ab")).text, /No account and no key is found/);
    assert.match((await search("sk-abd")).text, /No account and no key is found/);
  });

  it("is found by a request id, whosever it is, with the way to the call's page", async () => {
    assert.match(
      (await search(rid.toUpperCase())).text,
      new RegExp(`<a href="/accounts/acme/calls/${rid}">${rid}</a>`),
    );
    assert.match((await search(createRid())).text, /Nothing is booked for this request id/);
    assert.equal((await operator.browser.get(`/operator/calls/${rid}`)).location, `/accounts/acme/calls/${rid}`);
    for (const none of [createRid(), "x"]) {
      assert.equal((await operator.browser.get(`/operator/calls/${none}`)).status, 404);
    }
  });

  it("is found by an e-mail address, with the roles of the person", async () => {
    const { text } = await search(owner.email.toUpperCase());
    assert.match(text, new RegExp(`<th scope="row">${owner.email}</th>`));
    assert.match(text, /<a href="\/operator\/accounts\/acme">acme<\/a>: owner/);
    assert.match((await search("nobody@example.org")).text, /Nobody signs in as/);
  });

  it("is not an empty or an overlong text", async () => {
    for (const text of ["", " ", "a".repeat(255)]) assert.equal((await search(text)).status, 422);
  });
});

describe("a whole secret that somebody pastes", () => {
  const secret = "sk-abcdefg-and-the-rest-of-it";

  it("is used up to its tenth character, and is in no address, no page, no log and no request", async () => {
    world.neighbours.received.length = 0;
    for (const text of [secret, `Authorization: Bearer ${secret}`, `OPENAI_API_KEY="${secret}"`]) {
      const seen = await search(text);
      assert.ok(!seen.text.includes("-and-the-rest"), text);
      assert.match(seen.text, /value="sk-abcdefg"/);
    }
    const overlong = await search(`${"a".repeat(250)} ${secret}`);
    assert.ok(!overlong.text.includes("-and-the-rest"));
    const asked = world.neighbours.received.map(({ request }) => (request as FindKeysRequest).secretPrefix);
    assert.deepEqual(asked, ["sk-abcdefg", "sk-abcdefg", "sk-abcdefg"]);
    assert.ok(!world.logText().includes("-and-the-rest"));
  });

  it("can be sent by POST only: the address of a search is never more than its path", async () => {
    const { text } = await operator.browser.get(`${path}?q=${secret}&text=${secret}`);
    assert.ok(!text.includes("abcdefg"));
    assert.match(text, /<form method="post" action="\/operator\/search"/);
  });
});

it("names and texts with markup in them are shown as they were typed", async () => {
  const { text } = await search("evil");
  assert.match(text, /&#60;script&#62;alert\(1\)&#60;\/script&#62;&#38;amp;/);
  for (const typed of [wrong, `${wrong}@example.org`, `sk-${wrong}`]) {
    assert.doesNotMatch((await search(typed)).text, /<script>|&amp;/, typed);
  }
});

it("a neighbour that does not answer is told in words", async () => {
  world.neighbours.failure = new ServiceError("unavailable", "down at 10.0.0.1");
  const seen = await operator.browser.fill(path, { text: "acme" });
  world.neighbours.failure = undefined;
  assert.equal(seen.status, 503);
  assert.match(seen.text, /A part of the system does not answer/);
  assert.doesNotMatch(seen.text, /10\.0\.0\.1/);
});
