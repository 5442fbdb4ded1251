import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { parse } from "csv-parse/sync";
import { LineKind, type ExportLinesRequest } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { until } from "#shared/testing/until.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { download } from "../../testing/download.ts";
import { checkPage } from "../../testing/pages.ts";
import { pdfWords } from "../../testing/pdf-words.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

const nowMs = Date.parse("2026-11-21T12:00:00Z");
const wrong = `"><script>alert(1)</script>`;
const path = "/accounts/acme/ledger";

let world: World;
let owner: TestPerson;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  for (const accountId of ["acme", "other"]) world.neighbours.addAccount(accountId);
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => world[Symbol.asyncDispose]());

beforeEach(() => {
  world.clock.moveMs = nowMs - Date.now();
  const { usage } = world.neighbours;
  usage.lines.length = 0;
  Object.assign(usage, { isArchived: false, isStalled: false, isBroken: false, gone: 0 });
});

const credit = (day: string, amountNanos: bigint, more: object = {}): string => {
  const line = { accountId: "acme", kind: LineKind.CREDIT, amountNanos, reference: "pay_1", note: "Thanks", ...more };
  return world.neighbours.usage.book(Date.parse(`${day}T10:00:00Z`), line);
};
const textOf = (markup: string): string => markup.replaceAll(/<[^>]+>/g, "|").replaceAll(/\|+/g, "|");

describe("the ledger page", () => {
  it("has this month's statement: balance before, sums by kind, balance after, and whether it is final", async () => {
    credit("2026-10-31", 5_000_000_000n);
    credit("2026-11-01", 2_000_000_000n);
    const rid = world.neighbours.usage.bookCall("acme", Date.parse("2026-11-21T11:00:00Z"));
    const seen = await owner.browser.get(path);
    checkPage(seen, path);
    const text = textOf(seen.text);
    assert.match(text, /\|2026-11-01 to 2026-11-21, in USD\|/);
    assert.match(text, /\|Balance before\|5\.00 USD\|Payment\|1\|\+2\.00 USD\|Charge\|1\|-0\.00037 USD\|/);
    assert.match(text, /\|Balance after\|6\.99963 USD\|More may be booked within this time/);
    assert.match(
      text,
      /newest first\|.*\|Charge\|chat-large\|-0\.00037 USD\|–\|–\|.*\|Payment\|\+2\.00 USD\|pay_1\|Receipt\|Thanks\|/,
    );
    assert.ok(seen.text.includes(`<a href="/accounts/acme/calls/${rid}">${rid}</a>`));
    assert.equal(seen.text.match(/pay_1/g)?.length, 1, "October's payment is not among the lines");
  });

  it("has a link to the month before, whose statement is final", async () => {
    credit("2026-10-31", 5_000_000_000n);
    credit("2026-11-01", 2_000_000_000n);
    const { text } = await owner.browser.get(path);
    const [, query = ""] = /href="\/accounts\/acme\/ledger\?([^"]+)">Last month/.exec(text) ?? [];
    const decoded = query.replaceAll("&#38;", "&").replaceAll("&#61;", "=");
    assert.equal(decoded, "from=2026-10-01&until=2026-10-31");
    const seen = await owner.browser.get(`${path}?${decoded}`);
    const words = textOf(seen.text);
    assert.match(
      words,
      /\|Balance before\|0\.00 USD\|Payment\|1\|\+5\.00 USD\|Balance after\|5\.00 USD\|This statement is final\.\|/,
    );
    assert.match(words, /\|2026-10-31 10:00\|Payment\|\+5\.00 USD\|/);
    assert.doesNotMatch(words, /\+2\.00 USD/);
  });

  it("filters lines by kind and leads on page by page to the last one of the span, once each", async () => {
    credit("2026-10-31", 1n, { reference: "before" });
    for (let number = 0; number < 120; number += 1) credit("2026-11-05", 1_000_000n, { reference: `n${number}` });
    world.neighbours.usage.bookCall("acme", Date.parse("2026-11-06T11:00:00Z"));
    const seen = new Set<string>();
    let next = `${path}?kind=${LineKind.CREDIT}`;
    let pages = 0;
    while (next !== "" && pages < 5) {
      const { text } = await owner.browser.get(next);
      pages += 1;
      for (const [, reference = ""] of text.matchAll(/<td>(n\d+|before)</g)) {
        assert.ok(!seen.has(reference), reference);
        seen.add(reference);
      }
      assert.doesNotMatch(text, /<td>Charge<span/);
      next = (/<a rel="next" href="([^"]+)"/.exec(text)?.[1] ?? "").replaceAll("&#38;", "&").replaceAll("&#61;", "=");
    }
    assert.equal(pages, 3);
    assert.equal(seen.size, 120);
    assert.ok(!seen.has("before"));
  });

  for (const [query, sentence] of [
    ["from=nonsense", "Give a day as year-month-day, such as 2027-01-31."],
    ["from=2026-11-20&until=2026-11-01", "The last day must not be before the first."],
    ["from=2020-01-01&until=2026-11-01", "Choose at most 400 days."],
    ["kind=77", "Choose a kind of line that is in the list."],
  ] as const) {
    it(`of ${query} says what is wrong and shows this month`, async () => {
      const seen = await owner.browser.get(`${path}?${query}`);
      assert.equal(seen.status, 422);
      checkPage(seen, query);
      assert.ok(seen.text.includes(sentence), seen.text);
      assert.match(seen.text, /2026-11-01 to 2026-11-21/);
      assert.equal((await owner.browser.get(`${path}.csv?${query}`)).status, 422, "no file with something else in it");
    });
  }

  it("takes no page from an id that is none", async () => {
    credit("2026-11-05", 1n);
    const seen = await owner.browser.get(`${path}?before=${encodeURIComponent("'; DROP")}`);
    assert.equal(seen.status, 200);
    assert.match(seen.text, /pay_1/);
  });

  it("says of days that are in the archive that they are, and nothing of our insides", async () => {
    world.neighbours.usage.isArchived = true;
    const seen = await owner.browser.get(path);
    assert.equal(seen.status, 200);
    checkPage(seen, "archive");
    const file = await owner.browser.get(`${path}.csv`);
    assert.equal(file.status, 409);
    for (const { text } of [seen, file]) {
      assert.match(text, /are in the archive/);
      assert.doesNotMatch(text, /partition/);
    }
  });

  it("names, references and notes with markup in them come out as text", async () => {
    credit("2026-11-05", 1n, { reference: wrong, note: wrong });
    world.neighbours.usage.bookCall("acme", nowMs, { modelRequested: wrong });
    const seen = await owner.browser.get(path);
    checkPage(seen, "markup");
    assert.doesNotMatch(seen.text, /<script>/);
    assert.equal(seen.text.match(/&#60;script&#62;/g)?.length, 3);
  });

  it("is the page for what is away while billing is", async () => {
    world.neighbours.failure = new ServiceError("unavailable", "10.1.2.3 is away");
    try {
      assert.equal((await owner.browser.get(path)).status, 503);
    } finally {
      world.neighbours.failure = undefined;
    }
  });
});

describe("ledger lines as CSV", () => {
  it("are those of whole days of this account, exact, without what is the operators' alone", async () => {
    credit("2026-11-20", 1_500n, { note: "=1+1" });
    credit("2026-11-22", 1n);
    world.neighbours.usage.bookCall("acme", Date.parse("2026-11-20T11:00:00Z"));
    world.neighbours.usage.bookCall("other", Date.parse("2026-11-20T11:00:00Z"));
    const file = await download(world, owner.browser, `${path}.csv?from=2026-11-20&until=2026-11-21`);
    const name = 'attachment; filename="ledger-acme-2026-11-20-to-2026-11-21.csv"';
    assert.equal(file.headers.get("content-disposition"), name);
    assert.equal(file.headers.get("content-type"), "text/csv; charset=utf-8");
    const text = await file.text();
    const rows = parse(text, { columns: true }) as Record<string, string>[];
    assert.deepEqual(
      rows.map((row) => [row["day"], row["kind"], row["amount_usd"], row["note"], row["output_tokens"]]),
      [
        ["2026-11-20", "credit", "0.000001500", "'=1+1", ""],
        ["2026-11-20", "charge", "-0.000370000", "", "34"],
      ],
    );
    assert.doesNotMatch(text, /upstream|relay.session|sequence/);
    assert.ok(text.endsWith("\r\n"));
    const { accountId, fromDay, untilDay } = world.neighbours.usage.received.get("exportLines") as ExportLinesRequest;
    assert.deepEqual([accountId, fromDay, untilDay], ["acme", "2026-11-20", "2026-11-22"]);
  });

  it("of days without lines are a header", async () => {
    const file = await download(world, owner.browser, `${path}.csv`);
    assert.match(await file.text(), /^day,line_id,booked_at,[\w,]+\r\n$/);
  });

  it("are not sent on when the browser has gone: billing hears of it though nothing more comes", async () => {
    credit("2026-11-05", 1n);
    credit("2026-11-05", 2n);
    world.neighbours.usage.isStalled = true;
    const browser = new AbortController();
    const file = await download(world, owner.browser, `${path}.csv`, browser.signal);
    const reader = file.body?.getReader();
    assert.equal((await reader?.read())?.done, false);
    browser.abort();
    await until("billing has heard", () => world.neighbours.usage.gone === 1);
    assert.doesNotMatch(world.logText(), /download aborted/);
  });

  it("that break off are a download that failed, not a shorter file, and the log says why", async () => {
    credit("2026-11-05", 1n);
    world.neighbours.usage.isBroken = true;
    const file = await download(world, owner.browser, `${path}.csv`);
    assert.equal(file.status, 200);
    await assert.rejects(file.text());
    await until("the cause is logged", () => /10\.1\.2\.3 is away.*"msg":"download aborted"/.test(world.logText()));
  });

  it("that cannot begin are a page", async () => {
    world.neighbours.usage.isBroken = true;
    assert.equal((await owner.browser.get(`${path}.csv`)).status, 503);
  });
});

describe("documents", () => {
  const fetchPdf = async (from: string, browser = owner.browser) => {
    const response = await download(world, browser, from);
    const body = Buffer.from(await response.arrayBuffer());
    return { response, body, words: body.subarray(0, 5).toString() === "%PDF-" ? pdfWords(body) : "" };
  };

  it("a statement as PDF has the amounts of the page, exactly, and says whether it is final", async () => {
    credit("2026-09-30", 5_000_000_000n);
    credit("2026-10-01", 2_000_000_001n);
    world.neighbours.usage.bookCall("acme", Date.parse("2026-10-21T11:00:00Z"));
    const { response, words } = await fetchPdf(`${path}.pdf`);
    assert.equal(response.headers.get("content-type"), "application/pdf");
    const name = "statement-acme-2026-10-01-to-2026-10-31.pdf";
    assert.equal(response.headers.get("content-disposition"), `attachment; filename="${name}"`);
    assert.match(words, /^Statement\|/, "the month before, unless another is asked for");
    const rows = "Balance before|5.00 USD|Payment|1|+2.000000001 USD|Charge|1|-0.00037 USD|Balance after|";
    assert.ok(words.includes(rows), words);
    assert.match(words, /Balance after\|6\.999630001 USD\|/);
    const now = await fetchPdf(`${path}.pdf?from=2026-11-01&until=2026-11-21`);
    assert.match(now.words, /^Statement, not final\|/);
  });

  it("a payment has a receipt, which is of its account alone, and nothing else has one", async () => {
    const lineId = credit("2026-11-05", 2_500_000_000n);
    const foreign = credit("2026-11-06", 1n, { accountId: "other" });
    assert.ok((await owner.browser.get(path)).text.includes(`href="/accounts/acme/receipts/${lineId}"`));
    const { response, words } = await fetchPdf(`/accounts/acme/receipts/${lineId}`);
    assert.equal(response.status, 200);
    for (const part of [`${lineId}|`, "2026-11-05 10:00:00 UTC|", "pay_1|", "Credits, prepaid|2.50 USD|"])
      assert.ok(words.includes(part), part);
    const rid = world.neighbours.usage.bookCall("acme", Date.parse("2026-11-07T11:00:00Z"));
    for (const id of [foreign, rid, "x", `${lineId}%0a`, "ffffffff-ffff-7fff-bfff-ffffffffffff"])
      assert.equal((await fetchPdf(`/accounts/acme/receipts/${id}`)).response.status, 404, id);
  });

  it("days that are none, or in the archive, lead to the page that says so", async () => {
    const { response } = await fetchPdf(`${path}.pdf?from=2026-13-01`);
    assert.equal(response.headers.get("location"), `${path}?from=2026-13-01&until=`);
    world.neighbours.usage.isArchived = true;
    assert.equal((await fetchPdf(`${path}.pdf`)).response.status, 303);
  });

  it("names that the fonts do not know, or that are markup, do no harm", async () => {
    Object.assign(world.neighbours.accounts.get("acme") ?? {}, { name: "Zażółć (株) \\ ) Tj <b>" });
    const { words } = await fetchPdf(`${path}.pdf`);
    assert.ok(words.includes("Za?ó?? (?) \\ ) Tj <b> (acme)|"), words);
  });
});
