import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { parse } from "csv-parse/sync";
import { UsageGrouping, type QueryUsageRequest } from "#proto/billing/v1/billing_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { dayMs } from "#shared/process/clock.ts";
import { problems } from "../../html/problem.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { download } from "../../testing/download.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";
import { bucketNames, exactUsd } from "../../html/units.ts";

// Mid-month, so that days before today are in this month, and days before it are within thirty days.
const nowMs = Date.parse("2026-11-21T12:00:00Z");
const wrong = `"><script>alert(1)</script>`;

let world: World;
let owner: TestPerson;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  world.neighbours.addAccount("other");
  owner = await join(world, operator.browser, "acme", "owner");
  world.neighbours.addKey("acme", "first key");
  world.neighbours.addKey("acme", "=second key");
});
after(() => world[Symbol.asyncDispose]());

beforeEach(() => {
  world.clock.moveMs = nowMs - Date.now();
  world.neighbours.usage.lines.length = 0;
});

const asked = (): QueryUsageRequest => world.neighbours.usage.received.get("queryUsage") as QueryUsageRequest;
const book = (daysAgo: number, change = {}): string =>
  world.neighbours.usage.bookCall("acme", nowMs - daysAgo * dayMs, change);
const textOf = (markup: string): string => markup.replaceAll(/<[^>]+>/g, "|").replaceAll(/\|+/g, "|");

describe("the overview", () => {
  it("tells spend, calls and failed calls of today and of this month, and nothing of other accounts", async () => {
    book(0);
    book(0, { endCause: EndCause.UPSTREAM_ERROR });
    book(3, { endCause: EndCause.CLIENT_GONE });
    book(25);
    world.neighbours.usage.bookCall("other", nowMs);
    const seen = await owner.browser.get("/accounts/acme");
    checkPage(seen, "overview");
    const text = textOf(seen.text);
    assert.match(text, /\|Spend this month\|\$0\.001110\|Spend today\|\$0\.000740\|/);
    assert.match(text, /\|Calls today\|2, 1 failed\|Calls this month\|3, 1 failed\|/);
  });

  it("has a chart's table with each of the last 30 days; a day without use is 0", async () => {
    book(29);
    const { text } = await owner.browser.get("/accounts/acme");
    const rows = [...text.matchAll(/<tr data-value="([\d.]+)"(?: hidden)?><th scope="row">([\d-]+)<\/th>/g)];
    assert.equal(rows.length, 30);
    assert.deepEqual(rows[0]?.slice(1), ["0.000370000", "2026-10-23"]);
    assert.deepEqual(rows.at(-1)?.slice(1), ["0.000000000", "2026-11-21"]);
  });

  it("asks for the whole month where it has more than 30 days", async () => {
    world.clock.moveMs = Date.parse("2026-12-31T10:00:00Z") - Date.now();
    world.neighbours.usage.bookCall("acme", Date.parse("2026-12-01T00:00:00Z"));
    const { text } = await owner.browser.get("/accounts/acme");
    assert.match(textOf(text), /\|Calls this month\|1, 0 failed\|/);
    assert.equal(text.match(/<tr data-value/g)?.length, 30);
  });

  it("moves by fragments, which are no pages and do not keep a session alive that nobody uses", async () => {
    book(0);
    world.neighbours.balances.set("acme", 2_500_000_000n);
    const page = await owner.browser.get("/accounts/acme");
    assert.match(page.text, /hx-get="\/accounts\/acme\/figures" hx-trigger="every 5s"/);
    const lastSeen = async () =>
      (
        await world.database.sql(
          `SELECT last_seen_at < now() - interval '5 minutes' AS "isOld" FROM console.session
         WHERE person_id = '${owner.personId}'`,
        )
      )[0]?.["isOld"];
    await world.database.sql("UPDATE console.session SET last_seen_at = now() - interval '10 minutes'");
    const live = { "hx-request": "true" };
    const figures = await owner.browser.get("/accounts/acme/figures", live);
    assert.match(figures.text, /^<dl class="figures-row">.* title="2\.50 USD">\$2\.50<.*<\/dl>$/);
    const spending = await owner.browser.get("/accounts/acme/spending", live);
    assert.match(spending.text, /^<dl class="figures-row">.* title="0\.00037 USD">\$0\.000370<.*<\/dl>$/);
    assert.equal(figures.headers.get("cache-control"), "no-store");
    assert.equal(await lastSeen(), true);
    await owner.browser.get("/accounts/acme");
    assert.equal(await lastSeen(), false);
  });
});

it("the list of one's accounts begins at the first when it is asked for after what is no id", async () => {
  const seen = await owner.browser.get("/accounts?after=%00");
  assert.equal(seen.status, 200);
  assert.match(seen.text, /href="\/accounts\/acme"/);
});

describe("the usage page", () => {
  const path = "/accounts/acme/usage";

  it("shows the last 30 days by day, with calls, failed calls, charges and the token buckets in use, and their sums", async () => {
    book(0, { usage: { inputTokens: 1_000n, cacheReadTokens: 5n }, endCause: EndCause.UPSTREAM_CUT });
    book(1, { usage: { inputTokens: 500n } });
    const seen = await owner.browser.get(path);
    checkPage(seen, path);
    const { inputTokens, cacheReadTokens, outputTokens } = bucketNames;
    const text = textOf(seen.text);
    assert.match(text, new RegExp(`\\|Day\\|Charged\\|Calls\\|Failed calls\\|${inputTokens}\\|${cacheReadTokens}\\|`));
    assert.doesNotMatch(text, new RegExp(outputTokens));
    assert.match(text, /\|2026-11-20\|\$0\.001250\|1\|0\|500\|0\|2026-11-21\|\$0\.002500\|1\|1\|1,000\|5\|Total\|/);
    assert.match(text, /\|Total\|\$0\.003750\|2\|1\|1,500\|5\|/);
    assert.equal(seen.text.match(/<tr data-value/g)?.length, 30);
    assert.equal(asked().groupBy, UsageGrouping.DAY);
  });

  it("compares charges, calls, tokens, failures and cache hits with the period before", async () => {
    book(0, { usage: { inputTokens: 600n, cacheReadTokens: 300n, cacheWrite5mTokens: 100n, outputTokens: 50n } });
    book(6, { usage: { inputTokens: 1_000n }, endCause: EndCause.UPSTREAM_CUT });
    book(7, { usage: { inputTokens: 900n, cacheReadTokens: 100n } });
    book(13, { usage: { inputTokens: 3_000n } });
    book(14);
    const seen = await owner.browser.get(`${path}?from=2026-11-15&until=2026-11-21`);
    checkPage(seen, path);
    const text = textOf(seen.text).replaceAll("&#43;", "+");
    assert.match(text, /\|Calls\|2\|as before\|/);
    assert.match(text, /\|Tokens\|2,050\|-48\.7 % on the period before\|/);
    assert.match(text, /\|Failed calls\|50\.0 %\|before: 0\.0 %\|/);
    assert.match(text, /\|Cache hit rate\|15\.0 %\|before: 2\.5 %\|/);
    const before = textOf((await owner.browser.get(`${path}?from=2026-11-01&until=2026-11-06`)).text);
    assert.match(before, /\|Calls\|0\|Tokens\|0\|Failed calls\|–\|Cache hit rate\|–\|/);
  });

  it("has ranges up to now; that of 24 hours ends and begins within a day", async () => {
    book(0);
    book(0.9);
    book(1.1);
    const hours = await owner.browser.get(`${path}?range=24h`);
    checkPage(hours, "24 hours");
    assert.match(textOf(hours.text), /\|Calls\|2\|\+100\.0 % on the period before\|/);
    assert.match(textOf(hours.text), /\|2026-11-20\|\$0\.000370\|1\|.*\|2026-11-21\|\$0\.000370\|1\|/);
    assert.match(hours.text, /aria-current="page">24 hours</);
    assert.match(hours.text, /Charged by day in USD, 2026-11-20 to 2026-11-21/);
    const link = (label: string): string =>
      new RegExp(`href="([^"]+)"[^>]*>${label}<`)
        .exec(hours.text)?.[1]
        ?.replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code))) ?? label;
    for (const [label, from] of [
      ["7 days", "2026-11-15"],
      ["30 days", "2026-10-23"],
      ["90 days", "2026-08-24"],
    ] as const) {
      const seen = await owner.browser.get(link(label));
      assert.match(seen.text, new RegExp(`aria-current="page">${label}<`));
      assert.equal(new Date(Number(asked().from?.seconds) * 1_000).toISOString().slice(0, 10), from);
    }
    const file = await download(world, owner.browser, `${path}.csv?range=24h`);
    const rows: { calls: string }[] = parse(await file.text(), { columns: true });
    assert.deepEqual(
      rows.map(({ calls }) => calls),
      ["1", "1"],
    );
  });

  it("filters by days (the last one included), key and model, and groups by model or key under its name", async () => {
    book(2, { modelRequested: "embed-small", keyId: "key_1" });
    book(1);
    const query = "?from=2026-11-19&until=2026-11-19&group=key&key=key_1&model=embed-small";
    const seen = await owner.browser.get(path + query);
    checkPage(seen, query);
    assert.match(textOf(seen.text), /\|&#61;second key\|\$0\.000370\|1\|/);
    assert.match(seen.text, /<option value="key_1" selected>/);
    assert.deepEqual([asked().keyId, asked().model], ["key_1", "embed-small"]);
    assert.equal(Number(asked().from?.seconds) * 1_000, Date.parse("2026-11-19T00:00:00Z"));
    assert.equal(Number(asked().until?.seconds) * 1_000, Date.parse("2026-11-20T00:00:00Z"));
    const byModel = textOf((await owner.browser.get(`${path}?group=model`)).text);
    assert.match(byModel, /\|chat-large\|\$0\.000370\|1\|0\|.*\|embed-small\|/);
  });

  it("names keys that were deleted", async () => {
    await owner.browser.get("/accounts/acme/keys");
    const keyId = world.neighbours.addKey("acme", "gone key");
    await owner.browser.post(`/accounts/acme/keys/${keyId}/delete`);
    book(0, { keyId });
    assert.match(textOf((await owner.browser.get(`${path}?group=key`)).text), /\|gone key\|\$0\.000370\|/);
  });

  for (const [query, sentence] of [
    ["from=nonsense", "Give a day as year-month-day, such as 2027-01-31."],
    ["until=2026-02-30", "Give a day as year-month-day, such as 2027-01-31."],
    ["from=2026-11-20&until=2026-11-19", "The last day must not be before the first."],
    ["from=2025-01-01&until=2026-11-19", "Choose at most 400 days."],
    ["group=upstream", "Choose day, model, key or tag."],
    ["key=key_of_another", "There is no such key in this account."],
    [`model=${"m".repeat(257)}`, "Give the name of a model, at most 256 characters."],
  ] as const) {
    it(`of ${query.slice(0, 40)} says what is wrong and shows the last 30 days`, async () => {
      book(29);
      const seen = await owner.browser.get(`${path}?${query}`);
      assert.equal(seen.status, 422);
      checkPage(seen, query);
      assert.ok(seen.text.includes(sentence), seen.text);
      assert.match(textOf(seen.text), /\|2026-10-23\|\$0\.000370\|/);
      const file = await owner.browser.get(`${path}.csv?${query}`);
      assert.equal(file.status, 422, "no file with something else in it");
    });
  }

  it("counts no days to come", async () => {
    const seen = await owner.browser.get(`${path}?from=2026-11-20&until=2026-12-31`);
    assert.equal(seen.text.match(/<tr data-value/g)?.length, 2);
    const later = await owner.browser.get(`${path}?from=2027-01-01&until=2027-01-31`);
    assert.equal(later.status, 200);
  });

  it("says when the most is asked for, 400 days, and takes it", async () => {
    const seen = await owner.browser.get(`${path}?from=2025-10-18&until=2026-11-21`);
    assert.equal(seen.status, 200);
    assert.equal(seen.text.match(/<tr data-value/g)?.length, 400);
  });

  it("names with markup in them come out as text", async () => {
    const keyId = world.neighbours.addKey("acme", wrong);
    book(0, { modelRequested: wrong, keyId });
    for (const query of ["group=model", "group=key", `group=model&model=${encodeURIComponent(wrong)}`]) {
      const seen = await owner.browser.get(`${path}?${query}`);
      checkPage(seen, query);
      assert.match(seen.text, /&#60;script&#62;/);
      assert.doesNotMatch(seen.text, /<script>/);
    }
  });

  it("is the page for what is away while billing is", async () => {
    world.neighbours.failure = new ServiceError("unavailable", "10.1.2.3 is away");
    try {
      for (const one of [path, `${path}.csv`, "/accounts/acme/figures", "/accounts/acme/spending"]) {
        const seen = await owner.browser.get(one);
        assert.equal(seen.status, 503, one);
        assert.equal(seen.title, problems.unavailable.title);
      }
    } finally {
      world.neighbours.failure = undefined;
    }
  });
});

describe("usage as CSV", () => {
  it("is RFC 4180 with nine decimals under a name that says the account and the days", async () => {
    book(0, { usage: { inputTokens: 1n } });
    const path = "/accounts/acme/usage.csv?from=2026-11-20&until=2026-11-21";
    const file = await download(world, owner.browser, path);
    assert.equal(file.headers.get("content-type"), "text/csv; charset=utf-8");
    const name = 'attachment; filename="usage-acme-2026-11-20-to-2026-11-21.csv"';
    assert.equal(file.headers.get("content-disposition"), name);
    assert.equal(file.headers.get("cache-control"), "no-store");
    const [header, first, second, ...rest] = (await file.text()).split("\r\n");
    assert.match(
      header ?? "",
      /^day,calls,failed_calls,charged_usd,input_tokens,cache_read_tokens,.*,requests,.*,other_models_nanos$/,
    );
    assert.match(first ?? "", /^2026-11-20,0,0,0\.000000000,0,(0,?)+$/);
    assert.match(second ?? "", /^2026-11-21,1,0,0\.000002500,1,(0,?)+$/);
    assert.deepEqual(rest, [""]);
  });

  it("adds up keys by their tags; one with several counts in each, and in the summary once", async (t) => {
    const [first, second] = ["key_0", "key_1"].map((id) => world.neighbours.keys.get(id));
    assert.ok(first && second);
    first.tags = ["prod", "team=a"];
    second.tags = ["prod"];
    t.after(() => [first, second].forEach((key) => (key.tags = [])));
    book(0, { keyId: "key_0" });
    book(0, { keyId: "key_1" });
    book(0, { keyId: "key_gone" });
    const file = await download(world, owner.browser, "/accounts/acme/usage.csv?group=tag");
    const rows = parse(await file.text(), { columns: true }) as Record<string, string>[];
    const told = rows.map(({ tag, calls, charged_usd: usd, output_tokens: tokens }) => [tag, calls, usd, tokens]);
    assert.deepEqual(
      new Set(told.map((row) => row.join(" "))),
      new Set(["prod 2 0.000740000 68", "team=a 1 0.000370000 34", " 1 0.000370000 34"]),
    );
    const seen = await owner.browser.get("/accounts/acme/usage?group=tag");
    checkPage(seen, "usage by tag");
    assert.match(textOf(seen.text), /\|Charged\|\$0\.001110\|/);
    assert.match(textOf(seen.text), /\|no tag\|/);
    assert.doesNotMatch(seen.text, /<tfoot>/);
  });

  it("runs no formula: a name that begins like one has an apostrophe before it", async () => {
    for (const start of ["=", "+", "-", "@", "\t", "\r"]) book(0, { modelRequested: `${start}cmd("1",2)` });
    const file = await download(world, owner.browser, "/accounts/acme/usage.csv?group=model");
    const rows = parse(await file.text(), { columns: true }) as Record<string, string>[];
    assert.deepEqual(
      new Set(rows.map((row) => row["model"])),
      new Set(["=", "+", "-", "@", "\t", "\r"].map((start) => `'${start}cmd("1",2)`)),
    );
    book(0, { keyId: "key_1" });
    const keys = await download(world, owner.browser, "/accounts/acme/usage.csv?group=key&key=key_1");
    const [row] = parse(await keys.text(), { columns: true }) as Record<string, string>[];
    assert.deepEqual([row?.["key_id"], row?.["key_name"]], ["key_1", "'=second key"]);
  });
});

describe("what browsers get beside pages", () => {
  it("the scripts of a page for the signed-in, kept for a year, and no other file of their packages", async () => {
    const { text } = await owner.browser.get("/accounts/acme");
    const scripts = [...text.matchAll(/<script [^>]*src="([^"]+)"/g)].map(([, address = ""]) => address);
    const names = scripts.map((address) => address.split("/").at(-1));
    assert.deepEqual(names.slice(0, 3), ["htmx.min.js", "uPlot.iife.min.js", "console.js"]);
    const style = /href="([^"]+uPlot\.min\.css)"/.exec(text)?.[1] ?? "";
    for (const address of [...scripts, style]) {
      const seen = await world.browser().get(address);
      assert.equal(seen.status, 200, address);
      assert.equal(seen.headers.get("cache-control"), "public, max-age=31536000, immutable");
    }
    for (const name of ["htmx.js", "ext/hx-live.js", "uPlot.cjs.js", "skills/htmx-guidance.md", "../package.json"]) {
      assert.equal((await world.browser().get(style.replace("uPlot.min.css", name))).status, 404, name);
    }
  });

  it("no script before the sign-in, where passwords are typed", async () => {
    assert.doesNotMatch((await world.browser().get("/sign-in")).text, /<script/);
  });
});

it("an amount of a bucket is told to its last decimal, of which money itself has nine", () => {
  assert.equal(exactUsd(1n), "0.000000000000001 USD");
  assert.equal(exactUsd(0n), "0.00 USD");
  assert.equal(exactUsd(1_500_000_000_000_000n), "1.50 USD");
  assert.equal(exactUsd(30_000_000_000n), "0.00003 USD");
});
