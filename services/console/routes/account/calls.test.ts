import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { endCauseWords, lineKindWords, usageSourceWords } from "../../html/call-words.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

const atMs = Date.parse("2026-11-20T10:11:12.345Z");
const wrong = `"><script>alert(1)</script>`;

let world: World;
let operator: TestPerson;
let owner: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  for (const accountId of ["acme", "other"]) world.neighbours.addAccount(accountId);
  owner = await join(world, operator.browser, "acme", "owner");
  world.neighbours.addKey("acme", "first key");
});
after(() => world[Symbol.asyncDispose]());

const pathOf = (rid: string, accountId = "acme"): string => `/accounts/${accountId}/calls/${rid}`;
const textOf = (markup: string): string => markup.replaceAll(/<[^>]+>/g, "|").replaceAll(/\|+/g, "|");

describe("the page of a call", () => {
  it("says what was asked, how it went and the price line by line, exact, rounded up once", async () => {
    const rid = world.neighbours.usage.bookCall("acme", atMs, {
      usage: { inputTokens: 1n, cacheReadTokens: 3n, outputTokens: 1_000n },
      unitPriceNanos: { inputTokens: 1_250_000_000n, cacheReadTokens: 333_333n, outputTokens: 10_000_000_000n },
    });
    const seen = await owner.browser.get(pathOf(rid));
    checkPage(seen, "a call");
    const text = textOf(seen.text);
    for (const piece of [
      `|Request id:|${rid}|Copy|`,
      "|Endpoint|/v1/chat/completions|Requested model|chat-large|Served model|chat-large-2026-11|",
      "|Key|first key (key_0)|Streamed|yes|",
      "|Admitted|2026-11-20 10:11:12.345|First byte of the answer|2026-11-20 10:11:12.595|, after 250 ms|",
      "|Ended|2026-11-20 10:11:14.345|, after 2,000 ms|HTTP status|200|",
      "|The answer is whole.|",
      "|The provider counted.|",
      "|Price by chat-large@2026-11-01|",
      "|Input tokens|1|1.25 USD|0.00000125 USD|",
      "|Cache read tokens|3|0.000333333 USD|0.000000000999999 USD|",
      "|Output tokens|1,000|10.00 USD|0.01 USD|",
      "|Sum|0.010001250999999 USD|",
      "|Cost: the sum, rounded up once to nine decimals|0.010001251 USD|",
      "|Final hold|0.005 USD|Charged|0.010001251 USD|",
      "|Charge|chat-large|-0.010001251 USD|",
    ]) {
      assert.ok(text.includes(piece), `${piece} in ${text}`);
    }
    assert.match(seen.text, /<button type="button"[^>]* data-copy="request-id" hidden>/);
  });

  it("tells the upstream and what the call costs there to operators only, at the same address", async () => {
    const rid = world.neighbours.usage.bookCall("acme", atMs);
    const own = await owner.browser.get(pathOf(rid));
    assert.doesNotMatch(own.text, /Upstream|first-upstream|Cost at the provider|0\.000123/);
    const seen = await operator.browser.get(pathOf(rid));
    checkPage(seen, "a call, to an operator");
    assert.match(textOf(seen.text), /\|Upstream\|first-upstream\|.*\|Cost at the provider\|0\.000123 USD\|/);
  });

  it("shows the lines that came later, and counts charges apart from what was given back", async () => {
    const { usage } = world.neighbours;
    const rid = usage.bookCall("acme", atMs, { kind: RecordKind.PROVISIONAL });
    const line = usage.lines.at(-1);
    assert.ok(line);
    line.kind = LineKind.PROVISIONAL_CHARGE;
    const open = textOf((await owner.browser.get(pathOf(rid))).text);
    assert.match(open, /\|The final record of this call has not come/);
    const whole = { ...usage.lines.at(-1)?.usage, kind: RecordKind.FINAL, endCause: EndCause.RELAY_LOST };
    const { $typeName: _, ...final } = whole as typeof whole & { $typeName?: string };
    const about = { accountId: "acme", rid };
    usage.book(atMs + 9_000, {
      ...about,
      kind: LineKind.FINAL_ADJUSTMENT,
      amountNanos: -130_000n,
      usage: final as object,
    });
    usage.book(atMs + 10_000, {
      ...about,
      kind: LineKind.REFUND,
      amountNanos: 400_000n,
      reference: "r1",
      note: "sorry",
    });
    const text = textOf((await owner.browser.get(pathOf(rid))).text);
    assert.doesNotMatch(text, /has not come/);
    assert.match(text, /\|Charged\|0\.0005 USD\|Given back or corrected\|0\.0004 USD\|/);
    assert.match(
      text,
      /\|Provisional charge\|.*\|Adjustment to the final charge\|.*\|Refund\|\+0\.0004 USD\|r1\|sorry\|/,
    );
  });

  it("of which only a correction is known has its lines", async () => {
    const rid = "019a9f3c-0000-7000-8000-00000000000a";
    const line = { accountId: "acme", rid, kind: LineKind.CORRECTION, amountNanos: 5n, note: "by hand" };
    world.neighbours.usage.book(atMs, line);
    const seen = await owner.browser.get(pathOf(rid));
    checkPage(seen, "a correction");
    assert.match(textOf(seen.text), /nothing was charged\..*\|Correction\|\+0\.000000005 USD\|–\|by hand\|/);
  });

  it("of which nothing was served says so instead of a price", async () => {
    const none = { usage: {}, endCause: EndCause.UPSTREAM_TIMEOUT, usageSource: UsageSource.NONE, modelServed: "" };
    const { firstByteAt: _, ...line } = { ...none, upstream: "", firstByteAt: undefined };
    const rid = world.neighbours.usage.bookCall("acme", atMs, line);
    const seen = await owner.browser.get(pathOf(rid));
    checkPage(seen, "nothing served");
    assert.match(textOf(seen.text), /\|Nothing was used, so nothing is charged\.\|/);
  });

  it("that is not booked, is another account's or has no such id is a page that says what may be the case", async () => {
    const foreign = world.neighbours.usage.bookCall("other", atMs);
    const unknown = "019a9f3c-0000-7000-8000-00000000000f";
    for (const rid of [
      foreign,
      unknown,
      "nonsense",
      "019A9F3C-0000-7000-8000-00000000000F",
      encodeURIComponent(wrong),
    ]) {
      const seen = await owner.browser.get(pathOf(rid));
      assert.equal(seen.status, 404, rid);
      assert.equal(seen.title, "Call not found");
      checkPage(seen, rid);
      assert.match(seen.text, /booked moments after they end.*refused before.*key of another account/);
    }
    assert.equal((await operator.browser.get(pathOf(foreign, "other"))).status, 200);
    assert.equal((await operator.browser.get(pathOf(foreign))).status, 404);
  });

  it("whose lines are in the archive says so, to operators who look for it, too", async () => {
    const { usage } = world.neighbours;
    const rid = usage.bookCall("acme", atMs);
    await operator.browser.get("/operator/search");
    usage.isArchived = true;
    const seen = await owner.browser.get(pathOf(rid));
    const found = await operator.browser.post("/operator/search", { text: rid });
    const opened = await operator.browser.get(`/operator/calls/${rid}`);
    usage.isArchived = false;
    checkPage(seen, "a call in the archive");
    assert.deepEqual([seen.status, found.status, opened.status], [409, 200, 409]);
    for (const { text } of [seen, found, opened]) {
      assert.match(text, /in the archive/);
      assert.doesNotMatch(text, /Nothing was changed/);
    }
  });

  it("is below Activity in the navigation", async () => {
    const seen = await owner.browser.get("/accounts/acme/calls");
    assert.match(
      seen.text,
      /<a href="\/accounts\/acme\/activity" aria-current="page"><svg[^>]*><use[^>]*><\/use><\/svg>Activity<\/a>/,
    );
  });

  it("names a key without a name by its id", async () => {
    const keyId = world.neighbours.addKey("acme", "");
    const rid = world.neighbours.usage.bookCall("acme", atMs, { keyId });
    assert.ok(textOf((await owner.browser.get(pathOf(rid))).text).includes(`|Key|${keyId}|`));
  });

  it("with markup in its names comes out as text", async () => {
    const keyId = world.neighbours.addKey("acme", wrong);
    const named = { keyId, endpoint: wrong, modelRequested: wrong, modelServed: wrong, upstream: wrong };
    const rid = world.neighbours.usage.bookCall("acme", atMs, { ...named, priceVersion: wrong });
    const line = { accountId: "acme", rid, kind: LineKind.CORRECTION, amountNanos: 5n, reference: wrong, note: wrong };
    world.neighbours.usage.book(atMs + 5_000, line);
    const seen = await operator.browser.get(pathOf(rid));
    checkPage(seen, "markup");
    assert.doesNotMatch(seen.text, /<script>/);
    assert.ok(seen.text.split("&#60;script&#62;").length >= 9, seen.text);
  });
});

describe("finding a call", () => {
  it("leads from an id, however it was pasted, to the page of the call", async () => {
    const page = await owner.browser.get("/accounts/acme/calls");
    checkPage(page, "search");
    const pasted = encodeURIComponent(" 019A9F3C-0000-7000-8000-000000000001 ");
    const found = await owner.browser.get(`/accounts/acme/calls?rid=${pasted}`);
    assert.equal(found.status, 303);
    assert.equal(found.location, pathOf("019a9f3c-0000-7000-8000-000000000001"));
  });

  it("of what is no id says how one looks, and keeps what was typed as text", async () => {
    const seen = await owner.browser.get(`/accounts/acme/calls?rid=${encodeURIComponent(wrong)}`);
    assert.equal(seen.status, 422);
    checkPage(seen, "no id");
    assert.match(seen.text, /Give a request id such as/);
    assert.doesNotMatch(seen.text, /<script>/);
  });

  it("is the page for what is away while billing is", async () => {
    world.neighbours.failure = new ServiceError("unavailable", "10.1.2.3 is away");
    try {
      const seen = await owner.browser.get(pathOf("019a9f3c-0000-7000-8000-000000000001"));
      assert.equal(seen.status, 503);
    } finally {
      world.neighbours.failure = undefined;
    }
  });
});

it("every way to end, every source of counts and every kind of line has words, and a newer one its number", () => {
  const codes = (words: object): number[] => Object.values(words).filter((code) => typeof code === "number");
  for (const [tell, kinds] of [
    [endCauseWords, EndCause],
    [usageSourceWords, UsageSource],
    [lineKindWords, LineKind],
  ] as const) {
    const told = codes(kinds).map((code) => tell(code));
    assert.equal(new Set(told).size, codes(kinds).length);
    assert.ok(told.every((words) => !words.startsWith("Unknown")));
    assert.equal(tell(99), "Unknown (99)");
  }
});
