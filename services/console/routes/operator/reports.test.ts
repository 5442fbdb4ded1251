import assert from "node:assert/strict";
import { generateKeyPairSync, verify, type KeyObject } from "node:crypto";
import { after, before, beforeEach, describe, it } from "node:test";
import { Finding } from "#proto/billing/v1/billing_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { contentOf, signContent, toMessage, type ReportLine } from "#shared/money/report.ts";
import { createRid } from "#shared/money/rid.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { setUp, type TestPerson } from "../../testing/people.ts";

const wrong = `"><script>alert(1)</script>&amp;'`;
const path = "/operator/reports";
const day = new Date(Date.now() - dayMs).toISOString().slice(0, 10);
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const rid = createRid();

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
});
after(() => world[Symbol.asyncDispose]());
beforeEach(() => {
  world.neighbours.operators.reports.clear();
  world.neighbours.received.length = 0;
});

const line = (check: string, finding: Finding, change: Partial<ReportLine> = {}): ReportLine => {
  return { check, name: `what ${check} is`, finding, summary: "in words", differenceNanos: 0n, items: [], ...change };
};

const lines = [
  line("R1", Finding.WRONG, { differenceNanos: 1_500_000_000n, items: ["acme: the balance is off", "key_1: spent"] }),
  line("R4", Finding.LISTED, { items: [`${rid}: on the stream as message 5, not in the ledger`] }),
  line("R5", Finding.UNCHECKED),
  line("R7", Finding.RIGHT),
];

const contentFor = (of: string, some = lines): Buffer =>
  contentOf({ day: of, fromMs: 0, untilMs: 1, nowMs: Date.now(), lines: some });

function keep(of: string, key: KeyObject | "none" = privateKey, some = lines): void {
  const kept = signContent(contentFor(of, some), key === "none" ? undefined : key);
  world.neighbours.operators.reports.set(of, toMessage(kept));
}

async function open(where: string) {
  const seen = await operator.browser.get(where);
  assert.equal(seen.status, 200, seen.text);
  checkPage(seen, where);
  return seen.text;
}

describe("the report of a day", () => {
  it("is that of yesterday unless another day is asked for", async () => {
    keep(day);
    keep("2026-11-01");
    assert.match(await open(path), new RegExp(`Checks of ${day}`));
    assert.match(await open(`${path}?day=2026-11-01`), /Checks of 2026-11-01/);
    assert.match(await open(`${path}?day=2026-11-02`), /There is no report for this day/);
    assert.match(await open(`${path}?day=2026-13-01`), /Give a day as year-month-day/);
  });

  it("tells every check in words, the unexplained money first, and what is wrong with links", async () => {
    keep(day);
    const text = await open(path);
    assert.match(text, /<p class="unexplained wrong">Unexplained:<strong>1\.50 USD<\/strong>/);
    for (const words of ["✗ wrong", "• explained and listed", "\\? not checked", "✓ right"]) {
      assert.match(text, new RegExp(`<td class="finding [a-z]+">${words}</td>`));
    }
    assert.match(text, /<a href="\/operator\/accounts\/acme">acme<\/a>: the balance is off/);
    assert.match(text, /<li>key_1: spent<\/li>/);
    assert.match(text, new RegExp(`<a href="/operator/calls/${rid}">${rid}</a>: on the stream`));
    keep(day, privateKey, [line("R1", Finding.RIGHT)]);
    assert.match(await open(path), /<p class="unexplained">Unexplained:<strong>0\.00 USD<\/strong>/);
  });

  it("is what was signed, whatever else came with it", async () => {
    const kept = toMessage(signContent(contentFor(day), privateKey));
    world.neighbours.operators.reports.set(day, { ...kept, unexplainedNanos: 0n, lines: [] });
    assert.match(await open(path), /1\.50 USD.*the balance is off/);
  });

  it("names the key that has signed it, and says when the signature is not valid or missing", async () => {
    keep(day);
    assert.match(await open(path), /Signed \(Ed25519\) by the key that the report names:<code>sha256:[0-9a-f]{64}</);
    const other = signContent(contentFor("2026-11-01"), privateKey);
    world.neighbours.operators.reports.set(day, toMessage({ ...other, content: contentFor(day) }));
    assert.match(await open(path), /The signature is NOT VALID/);
    keep(day, "none");
    assert.match(await open(path), /not signed/);
    assert.equal((await operator.browser.get(`${path}/${day}/report.sig.base64`)).status, 404);
  });

  it("can be kept with its signature and its key, and checked with them", async () => {
    const content = contentFor(day, [line("R1", Finding.RIGHT, { summary: "für 1 µs" })]);
    world.neighbours.operators.reports.set(day, toMessage(signContent(content, privateKey)));
    const fetched = async (file: string) => {
      const { status, text, headers } = await operator.browser.get(`${path}/${day}/${file}`);
      assert.equal(status, 200);
      assert.equal(headers.get("content-disposition"), `attachment; filename="${day}-${file}"`);
      return text;
    };
    const signature = Buffer.from(await fetched("report.sig.base64"), "base64");
    assert.ok(verify(null, Buffer.from(await fetched("report.json")), publicKey, signature));
    assert.match(await fetched("public-key.pem"), /BEGIN PUBLIC KEY/);
    for (const none of [`${day}/none`, "2026-11-02/report.json", "x/report.json", "2026-13-01/report.json"]) {
      assert.equal((await operator.browser.get(`${path}/${none}`)).status, 404, none);
    }
  });
});

describe("reconciling now", () => {
  const trail = () =>
    world.database.sql(
      "SELECT outcome, target, after FROM console.audit_entry WHERE action = 'report.make' ORDER BY audit_id",
    );

  it("looks at what changed lately and keeps nothing", async () => {
    world.neighbours.operators.reports.set("", { day: "", lines: [line("R1", Finding.RIGHT)] });
    await operator.browser.get(path);
    const seen = await operator.browser.post(`${path}/now`);
    checkPage(seen, "now");
    assert.match(seen.text, /Checks of what changed lately/);
    assert.match(seen.text, /It is not stored, so it is not signed/);
    assert.deepEqual(await trail(), []);
  });

  it("makes the report of a day, which the audit log notes with what was found", async () => {
    keep(day);
    const done = await operator.browser.submit(path, { "report-day": day }, `${path}/day`);
    assert.match(done.text, new RegExp(`The report of ${day} is made and kept`));
    const [{ request } = { request: undefined }] = world.neighbours.received;
    assert.equal((request as { day?: string } | undefined)?.day, day);
    assert.deepEqual(await trail(), [
      { outcome: "asked", target: day, after: null },
      { outcome: "done", target: day, after: { unexplainedNanos: "1500000000", isSigned: true } },
    ]);
  });

  it("is not done for a day that is none or has not begun", async () => {
    const tomorrow = new Date(Date.now() + dayMs).toISOString().slice(0, 10);
    await operator.browser.get(path);
    for (const none of ["", "x", "2026-02-30", tomorrow]) {
      const seen = await operator.browser.post(`${path}/day`, { "report-day": none });
      assert.equal(seen.status, 422, none);
      checkPage(seen, none);
    }
    assert.deepEqual(world.neighbours.received, []);
  });
});

it("how far billing is behind the stream is told", async () => {
  assert.match(await open(path), /at message 12; all of it is booked/);
  world.neighbours.operators.progress.lastSequence = 15n;
  assert.match(await open(path), /3 messages are not booked yet/);
});

it("a report is shown, too, while it is not known how far the stream is booked: NATS may be what is down", async () => {
  keep(day);
  world.neighbours.breakAfter = "getProgress";
  const seen = await operator.browser.get(path);
  world.neighbours.breakAfter = "";
  assert.equal(seen.status, 200);
  assert.match(seen.text, new RegExp(`Checks of ${day}`));
  assert.match(seen.text, /does not answer, so booking progress is unknown/);
});

it("texts with markup in them are shown as they were written", async () => {
  const bad = { name: wrong, summary: wrong, items: [wrong, `${wrong}: ${rid}`] };
  keep(day, privateKey, [line("R1", Finding.WRONG, bad), line("R4", Finding.WRONG, bad), line(wrong, Finding.WRONG)]);
  const text = await open(path);
  assert.doesNotMatch(text, /<script>|&amp;/);
  assert.match(text, /&#60;script&#62;alert\(1\)/);
  const { text: filter } = await operator.browser.get(`${path}?day=${encodeURIComponent(wrong)}`);
  assert.doesNotMatch(filter, /<script>/);
});

it("a billing that does not answer is told in words", async () => {
  await operator.browser.get(path);
  world.neighbours.failure = new ServiceError("unavailable", "down at 10.0.0.1");
  const seen = [await operator.browser.get(path), await operator.browser.post(`${path}/now`)];
  world.neighbours.failure = undefined;
  for (const { status, text } of seen) {
    assert.equal(status, 503);
    assert.match(text, /A part of the system does not answer/);
    assert.doesNotMatch(text, /10\.0\.0\.1/);
  }
});
