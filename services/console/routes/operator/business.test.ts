import assert from "node:assert/strict";
import { after, before, beforeEach, it } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { parse } from "csv-parse/sync";
import { BusinessGrouping } from "#proto/billing/v1/billing_pb.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { download } from "../../testing/download.ts";
import { checkPage } from "../../testing/pages.ts";
import { setUp, type TestPerson } from "../../testing/people.ts";

const nowMs = Date.parse("2026-11-21T12:00:00Z");
const wrong = `"><script>alert(1)</script>`;

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.clock.moveMs = nowMs - Date.now();
  world.neighbours.addAccount("acme", "Acme Incorporated");
});
after(() => world[Symbol.asyncDispose]());

beforeEach(() => {
  world.neighbours.operators.business.clear();
  world.neighbours.operators.businessAsked.length = 0;
});

const textOf = (markup: string): string => markup.replaceAll(/<[^>]+>/g, "|").replaceAll(/[|\s]+/g, "|");

const usd = 1_000_000_000n;
const sum = {
  calls: 100n,
  failedCalls: 8n,
  upstreamFailedCalls: 5n,
  goneCalls: 2n,
  chargedNanos: 10n * usd,
  costNanos: 6n * usd,
  refundedNanos: 1n * usd,
  creditedNanos: 20n * usd,
  accounts: 3n,
  newAccounts: 1n,
};
const summedUntil = timestampFromMs(nowMs - 3_600_000);

const tell = (groupBy: BusinessGrouping, sums: object[], more: object = {}): void =>
  void world.neighbours.operators.business.set(groupBy, { sums, groups: BigInt(sums.length), summedUntil, ...more });

async function look(query = ""): Promise<string> {
  const seen = await operator.browser.get(`/operator/business${query}`);
  assert.equal(seen.status, 200);
  checkPage(seen, "business");
  return textOf(seen.text);
}

it("tells revenue, cost and margin beside the period before, by day", async () => {
  tell(BusinessGrouping.UNSPECIFIED, [sum]);
  tell(BusinessGrouping.DAY, [{ ...sum, group: "2026-11-20" }]);
  const text = await look();
  assert.match(text, /\|Revenue\|\$9\.00\|as\|before\|Provider\|cost\|\$6\.00\|Margin\|\$4\.00\|40\.0\|%\|/);
  assert.match(
    text,
    /\|Paid\|in\|\$20\.00\|.*\|Active\|accounts\|3\|.*\|New\|accounts\|1\|.*\|Failed\|calls\|8\.0\|%\|/,
  );
  assert.match(text, /\|2026-11-20\|\$10\.00\|\$6\.00\|\$4\.00\|40\.0\|%\|\$1\.00\|100\|8\|8\.0\|%\|5\|5\.0\|%\|/);
  const spans = world.neighbours.operators.businessAsked.map(({ fromDay, untilDay }) => `${fromDay} ${untilDay}`);
  assert.deepEqual(new Set(spans), new Set(["2026-09-23 2026-10-23", "2026-10-23 2026-11-22"]));
});

it("says of a cost that is unknown that it is, and takes no charge without one into the margin", async () => {
  const half = { ...sum, uncostedCalls: 40n, uncostedNanos: 3n * usd };
  tell(BusinessGrouping.UNSPECIFIED, [half]);
  tell(BusinessGrouping.UPSTREAM, [
    { ...half, group: "east" },
    { ...sum, group: "west", uncostedCalls: 100n, uncostedNanos: 10n * usd, costNanos: 0n },
  ]);
  const text = await look("?group=upstream");
  assert.match(text, /\|Provider\|cost\|\$6\.00\|and\|unknown\|of\|40\|calls\|Margin\|\$1\.00\|14\.2\|%\|/);
  assert.match(text, /\|west\|\$10\.00\|unknown\|unknown\|\$1\.00\|/);
  const file = await download(world, operator.browser, "/operator/business.csv?group=upstream");
  const [east, west] = parse<Record<string, string>>(await file.text(), { columns: true });
  assert.deepEqual([east?.["margin_usd"], east?.["provider_cost_usd"]], ["1.000000000", "6.000000000"]);
  assert.deepEqual([west?.["margin_usd"], west?.["provider_cost_usd"], west?.["upstream"]], ["", "", "west"]);
});

it("lists the accounts that are charged most, by name, with the way to each", async () => {
  tell(
    BusinessGrouping.ACCOUNT,
    [
      { ...sum, group: "acme" },
      { ...sum, group: "gone" },
    ],
    { groups: 7n },
  );
  const { text } = await operator.browser.get("/operator/business?group=account");
  assert.match(text, /<a href="\/operator\/accounts\/acme">Acme Incorporated<\/a>/);
  assert.match(text, /<a href="\/operator\/accounts\/gone">gone<\/a>/);
  assert.match(text, /the 2 of 7 charged most/);
  assert.equal(world.neighbours.operators.businessAsked.find(({ groupBy }) => groupBy !== 0)?.limit, 100);
});

it("tells which days are missing, and is whole without any figure", async () => {
  tell(BusinessGrouping.UNSPECIFIED, [], { missingDays: ["2026-11-01", "2026-11-02"] });
  const text = await look("?group=model");
  assert.match(text, /are\|2\|days,\|2026-11-01\|to\|2026-11-02/);
  assert.match(text, /Charged\|by\|model\|in\|USD.*none\./);
});

it("shows what is wrong with filters, and never in a file", async () => {
  for (const query of [
    `?group=${encodeURIComponent(wrong)}`,
    "?from=2026-02-30",
    "?from=2020-01-01&until=2026-01-01",
  ]) {
    for (const path of ["/operator/business", "/operator/business.csv"]) {
      const seen = await operator.browser.get(path + query);
      assert.equal(seen.status, 422, path + query);
      checkPage(seen, query);
      assert.match(seen.text, /Some filters are invalid/);
    }
  }
});
