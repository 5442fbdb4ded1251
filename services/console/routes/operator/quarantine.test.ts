import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, beforeEach, describe, it } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromDate, timestampNow } from "@bufbuild/protobuf/wkt";
import type { ReplayResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import type { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { createRid } from "#shared/money/rid.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { setUp, type TestPerson } from "../../testing/people.ts";

const wrong = `"><script>alert(1)</script>&amp;'`;
const path = "/operator/quarantine";
const rid = createRid();

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
});
after(() => world[Symbol.asyncDispose]());
beforeEach(() => {
  const { quarantine, unbookable, replayAsked } = world.neighbours.operators;
  quarantine.length = 0;
  unbookable.clear();
  replayAsked.length = 0;
  world.neighbours.received.length = 0;
});

const usage = { rid, accountId: "acme", modelRequested: "chat-large", costNanos: 1_500_000n };

function add(quarantineId: bigint, change: object = {}): void {
  const record = { quarantineId, reason: "cost_mismatch", rid, usage, isOpen: true, receivedAt: timestampNow() };
  world.neighbours.operators.quarantine.push({ ...record, payload: Buffer.from([1, 2, 255]), ...change });
}

async function open(where: string) {
  const seen = await operator.browser.get(where);
  assert.equal(seen.status, 200, seen.text);
  checkPage(seen, where);
  return seen.text;
}

const trail = (action: string) =>
  world.database.sql(
    `SELECT outcome, target, after FROM console.audit_entry WHERE action = '${action}' ORDER BY audit_id`,
  );

describe("the quarantine", () => {
  it("lists open records, or all, newest first, with the way to the call", async () => {
    add(1n, { isOpen: false });
    add(2n);
    add(3n, { usage: undefined, rid: "", reason: "unreadable" });
    const text = await open(path);
    assert.match(text, /href="\/operator\/quarantine\/3".*href="\/operator\/quarantine\/2"/);
    assert.doesNotMatch(text, /href="\/operator\/quarantine\/1"/);
    assert.match(text, new RegExp(`<a href="/accounts/acme/calls/${rid}">${rid}</a>`));
    assert.match(text, /acme: chat-large, 0\.0015 USD/);
    assert.match(text, /cannot be read/);
    const all = await open(`${path}?view=all`);
    assert.match(all, /href="\/operator\/quarantine\/1"/);
    assert.doesNotMatch(all, /name="ids" value="1"/);
  });

  it("is paged", async () => {
    for (let number = 1n; number <= 51n; number += 1n) add(number);
    const next = /rel="next" href="([^"]+)"/.exec(await open(path))?.[1] ?? "";
    const second = await open(next.replaceAll("&#61;", "=").replaceAll("&#38;", "&").replaceAll("&amp;", "&"));
    assert.match(second, /href="\/operator\/quarantine\/1"/);
    assert.doesNotMatch(second, /href="\/operator\/quarantine\/2"|rel="next"/);
  });

  it("shows every field of a record as it came, however odd, and the first bytes of its payload", async () => {
    const startedAt = { seconds: 9_000_000_000_000_000n, nanos: 0 };
    const odd = { ...usage, startedAt, endCause: 99 as EndCause, usage: { inputTokens: -5n }, upstreamCostNanos: 7n };
    add(7n, { usage: { ...odd, endedAt: timestampFromDate(new Date("2026-11-20T08:00:00Z")) } });
    add(8n, { payload: Buffer.alloc(5_000, 171) });
    const text = await open(`${path}/7`);
    assert.match(text, /<code>started_at<\/code><\/dt><dd>9000000000000000 s after 1970<\/dd>/);
    assert.match(text, /<code>end_cause<\/code><\/dt><dd>unknown \(99\)<\/dd>/);
    assert.match(text, /<code>usage<\/code><\/dt><dd><ul class="values"><li>Input tokens: -5<\/li>/);
    assert.match(text, /<code>upstream_cost_nanos<\/code><\/dt><dd>7<\/dd>/);
    assert.match(text, /<code>first_byte_at<\/code><\/dt><dd>not set<\/dd>/);
    assert.match(text, /<code>key_id<\/code><\/dt><dd>empty<\/dd>/);
    assert.match(text, /2026-11-20 08:00<\/time>.*<pre>0102ff<\/pre>/);
    const long = await open(`${path}/8`);
    assert.match(long, /5000 bytes, of which the first 4096 are shown/);
    assert.equal([...long.matchAll(/ab/g)].length >= 4_096, true);
    assert.equal([...long.matchAll(/(?:ab){32}/g)].length, 128);
    for (const none of ["9", "0", "x", "-1", "1".repeat(19)]) {
      assert.equal((await operator.browser.get(`${path}/${none}`)).status, 404, none);
    }
  });

  it("tries one record again, or all open ones of the page, and tells what became of each", async () => {
    for (const number of [1n, 2n, 3n]) add(number);
    world.neighbours.operators.unbookable.set(2n, wrong);
    const ids = /name="ids" value="(3 2 1)"/.exec(await open(path))?.[1] ?? "";
    const seen = await operator.browser.post(`${path}/retry`, { ids });
    checkPage(seen, "retried");
    assert.match(seen.text, />3<\/a><\/th><td>booked<\/td><td>–<\/td>/);
    assert.match(seen.text, />2<\/a><\/th><td>stays in quarantine<\/td><td>&#34;&#62;&#60;script/);
    assert.deepEqual(await trail("quarantine.retry"), [
      { outcome: "asked", target: "3 2 1", after: null },
      { outcome: "done", target: "3 2 1", after: { booked: ["3", "1"], kept: ["2"] } },
    ]);
    const text = await open(path);
    assert.match(text, /href="\/operator\/quarantine\/2"/);
    assert.doesNotMatch(text, /Retry all|href="\/operator\/quarantine\/1"/);
    for (const none of ["", "x", "1 x", Array.from({ length: 51 }, () => "1").join(" ")]) {
      assert.equal((await operator.browser.post(`${path}/retry`, { ids: none })).status, 400, none);
    }
  });

  it("shows texts with markup in them as they came", async () => {
    add(1n, { reason: wrong, rid: wrong, usage: { ...usage, rid: wrong, accountId: wrong, modelRequested: wrong } });
    for (const where of [path, `${path}/1`]) {
      const text = await open(where);
      assert.doesNotMatch(text, /<script>|&amp;/, where);
      assert.match(text, /&#60;script&#62;alert\(1\)/, where);
      assert.doesNotMatch(text, /href="\/accounts\/[^"]*calls/, where);
    }
  });

  it("says in words that billing does not answer", async () => {
    await operator.browser.get(path);
    world.neighbours.failure = new ServiceError("unavailable", "down at 10.0.0.1");
    const seen = [await operator.browser.get(path), await operator.browser.post(`${path}/retry`, { ids: "1" })];
    world.neighbours.failure = undefined;
    for (const { status, text } of seen) {
      assert.equal(status, 503);
      assert.doesNotMatch(text, /10\.0\.0\.1/);
    }
  });
});

describe("reading the stream again", () => {
  const done: MessageInitShape<typeof ReplayResponseSchema> = {
    events: 10n,
    known: 8n,
    missing: 2n,
    missingNanos: 1_500_000n,
    isDone: true,
  };
  const fields = { from: "2026-11-20", until: "2026-11-20 13:30", account: "acme", run: "dry" };
  const begin = (change: object = {}) => operator.browser.fill(`${path}/replay`, { ...fields, ...change });
  const entries = async () =>
    (await trail("ledger.replay")).slice(-2).map(({ outcome, after: values }) => [outcome, values]);

  it("only tells, unless booking is chosen, and says how far it is, then the whole", async () => {
    assert.match(await open(`${path}/replay`), /<select id="run" name="run"><option value="dry">/);
    world.neighbours.operators.replayed = async function* () {
      yield { events: 5n, missing: 1n, missingRids: [rid] };
      yield done;
    };
    const seen = await begin();
    checkPage(seen, "replay");
    assert.match(seen.text, /Nothing is booked\..*5 events read, 1 missing so far.*The replay is complete/);
    assert.match(seen.text, /<dt>Missing, not booked<\/dt><dd>2, 0\.0015 USD<\/dd>/);
    assert.match(seen.text, new RegExp(`Missing calls, the first 1.*<li>${rid}</li>`));
    const [request] = world.neighbours.operators.replayAsked;
    assert.ok(request?.from && request.until);
    assert.equal(timestampDate(request.from).toISOString(), "2026-11-20T00:00:00.000Z");
    assert.equal(timestampDate(request.until).toISOString(), "2026-11-20T13:30:00.000Z");
    assert.deepEqual([request.accountId, request.dryRun], ["acme", true]);
    const asked = {
      from: "2026-11-20T00:00:00.000Z",
      until: "2026-11-20T13:30:00.000Z",
      account: "acme",
      dryRun: true,
    };
    const totals = { events: "10", known: "8", missing: "2", missingNanos: "1500000", rejected: "0", isWhole: true };
    assert.deepEqual(await entries(), [
      ["asked", asked],
      ["done", { ...asked, ...totals }],
    ]);
  });

  it("books what is missing when that is chosen, of all accounts and the whole stream", async () => {
    world.neighbours.operators.replayed = async function* () {
      yield { ...done, missingRids: [rid] };
    };
    const seen = await begin({ from: "", until: "", account: "", run: "book" });
    assert.match(seen.text, /Missing, booked now/);
    assert.match(seen.text, new RegExp(`<a href="/operator/calls/${rid}">`));
    const [request] = world.neighbours.operators.replayAsked;
    assert.deepEqual(
      [request?.from, request?.until, request?.accountId, request?.dryRun],
      [undefined, undefined, "", false],
    );
  });

  it("is not begun by a form with mistakes; a form that does not say so never books", async () => {
    const wrongs = [{ from: "x" }, { until: "2026-02-30" }, { until: "2026-11-19" }, { account: wrong }];
    for (const change of [...wrongs, { run: "" }, { run: "all" }, { from: "2026-11-20 24:61" }]) {
      const seen = await begin(change);
      assert.equal(seen.status, 422, JSON.stringify(change));
      checkPage(seen, JSON.stringify(change));
    }
    assert.deepEqual(world.neighbours.operators.replayAsked, []);
  });

  it("that breaks off says so on the page, and the line `asked` stays alone", async () => {
    world.neighbours.operators.replayed = async function* () {
      yield { events: 5n };
      throw new ServiceError("unavailable", "down at 10.0.0.1");
    };
    const before = (await trail("ledger.replay")).length;
    const seen = await begin();
    assert.match(seen.text, /5 events read.*The replay was aborted/);
    assert.doesNotMatch(seen.text, /10\.0\.0\.1/);
    assert.deepEqual(
      (await trail("ledger.replay")).slice(before).map(({ outcome }) => outcome),
      ["asked"],
    );
  });

  it("that ends without its end says so, and the audit log knows", async () => {
    world.neighbours.operators.replayed = async function* () {
      yield { events: 5n };
    };
    assert.match((await begin()).text, /The replay ended early/);
    const [, [outcome, values] = []] = await entries();
    assert.deepEqual([outcome, (values as { isWhole: boolean }).isWhole], ["done", false]);
  });

  it("ends when whoever waits for it goes away", async () => {
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    world.neighbours.operators.replayed = async function* (gone) {
      begun.resolve();
      try {
        while (!gone.aborted) {
          yield { events: 5n };
          // At the pace of the reader: a turn of the event loop between two.
          await new Promise((resolve) => setImmediate(resolve));
        }
      } finally {
        ended.resolve();
      }
    };
    await operator.browser.get(`${path}/replay`);
    const leaving = new AbortController();
    const cookie = [...operator.browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = { cookie, "x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https" };
    const body = new URLSearchParams({ ...fields, csrf: operator.browser.csrf() });
    const url = `http://127.0.0.1:${world.app.httpPort}${path}/replay`;
    const response = await fetch(url, { method: "POST", body, headers, signal: leaving.signal });
    assert.equal(response.status, 200);
    await begun.promise;
    const left = once(leaving.signal, "abort");
    leaving.abort();
    await left;
    await ended.promise;
  });
});
