import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createRid } from "#shared/money/rid.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

const path = "/accounts/acme/activity/refused";
const nasty = "<script>alert(1)</script>";

let world: World;
let reader: TestPerson;
let website: string;
let batch: string;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  reader = await join(world, operator.browser, "acme", "viewer");
  [website, batch] = ["Website", "Batch"].map((name) => world.neighbours.addKey("acme", name)) as [string, string];
});
after(() => world[Symbol.asyncDispose]());

const open = (query = "") => reader.browser.get(`${path}${query}`);
const minute = (agoMs: number) => timestampFromMs(Date.now() - agoMs);

describe("refused calls", () => {
  it("says that there are none, and where they will be", async () => {
    const seen = await open();
    checkPage(seen, path);
    assert.match(seen.text, /Nothing was refused/);
    const activity = await reader.browser.get("/accounts/acme/activity");
    checkPage(activity, "/accounts/acme/activity");
    assert.match(activity.text, /href="\/accounts\/acme\/activity\/refused"/);
  });

  it("tells why, how often, with which key and what to do, and the newest calls", async () => {
    const rid = createRid();
    const endpoint = "/v1/chat/completions";
    world.neighbours.refused.set("acme", {
      counts: [
        { keyId: website, reason: "balance", status: 403, refusals: 12_345n, minute: minute(60_000) },
        { keyId: batch, reason: "key_expired", status: 401, refusals: 2n, minute: minute(3 * 86_400_000) },
        { keyId: batch, reason: "of_a_later_version", status: 418, refusals: 1n, minute: minute(60_000) },
      ],
      calls: [
        { rid, keyId: website, reason: "balance", status: 403, endpoint, model: "chat-large" },
        { rid: createRid(), keyId: batch, reason: "field_invalid", status: 400, endpoint, detail: nasty },
      ],
    });
    const seen = await open();
    checkPage(seen, path);
    const rowOf = (words: string): string => seen.text.split("<tr>").find((row) => row.includes(words)) ?? "";
    const low = rowOf("The balance, or what is left of the budget, is too low<small>Add credits");
    assert.match(low, />403<\/span>[^]*Website[^]*>12,345</);
    assert.match(rowOf(rid), /\/v1\/chat\/completions<small>chat-large<\/small>[^]*Website/);
    assert.match(rowOf("of_a_later_version"), />418</);
    assert.ok(!seen.text.includes(nasty) && rowOf("A field cannot be used").includes("alert(1)"), "markup is text");
    assert.doesNotMatch(seen.text, /The key has expired/, "three days ago is not within 24 hours");
  });

  it("is chosen by key and length of time", async () => {
    assert.match((await open("?span=week")).text, /The key has expired<small>Set a later last day/);
    const ofKey = (await open(`?key=${batch}`)).text;
    assert.match(ofKey, /of_a_later_version/);
    assert.doesNotMatch(ofKey, /The balance, or what is left of the budget, is too low/);
    assert.match(
      (await open("?span=nonsense&key=key_of_nobody")).text,
      /The balance, or what is left of the budget, is too low/,
    );
  });
});
