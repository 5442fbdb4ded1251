import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import { LineKind, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { until } from "#shared/testing/until.ts";
import { exportLines } from "./export-lines.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import { startLedgerAlone } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedgerAlone>>;
before(async () => {
  server = await startLedgerAlone();
});
after(() => server[Symbol.asyncDispose]());

const startApp = () => startAppOn(server.postgres);
type App = Awaited<ReturnType<typeof startApp>>;

const dayMs = 86_400_000;
const nowMs = Date.now();
const day = (days: number): string => new Date(nowMs + days * dayMs).toISOString().slice(0, 10);
const all = { fromDay: day(-70), untilDay: day(2) };

async function collect({ streams }: App, request: { accountId?: string; fromDay: string; untilDay: string }) {
  const pages = await Array.fromAsync(streams.exportLines(request));
  return pages.flatMap(({ lines }) => lines);
}

/** Calls of some accounts on a day, `days` from today. */
function calls(days: number, accounts: readonly string[]) {
  return accounts.map((accountId) => ({
    rid: v7({ msecs: nowMs + days * dayMs }),
    accountId,
    keyId: `key_${accountId}`,
  }));
}

const placeOf = ({ rid, accountId, lineId }: LedgerLine): string[] => {
  const atMs = Number.parseInt((rid || lineId).replaceAll("-", "").slice(0, 12), 16);
  return [new Date(atMs).toISOString().slice(0, 10), accountId, lineId];
};

test("whole days come in the order of day, account and line, over many pages, each line once", async () => {
  await using app = await startApp();
  const mixed = Array.from({ length: 700 }, (_, index) => `a${index % 3}`);
  // Booked in another order than that of the days.
  for (const days of [0, -40, -2]) await app.book(...calls(days, mixed));
  await app.billing.credit({ accountId: "a1", amountNanos: 9n, paymentId: "p", note: "n" });
  const lines = await collect(app, all);
  assert.equal(lines.length, 2_101);
  const places = lines.map((line) => placeOf(line).join(" "));
  assert.equal(new Set(places).size, places.length);
  assert.deepEqual(places, places.toSorted());
  const credit = lines.find(({ kind }) => kind === LineKind.CREDIT);
  assert.deepEqual([credit?.amountNanos, credit?.reference, credit?.note], [9n, "p", "n"]);
  assert.equal(lines[0]?.usage?.usage?.outputTokens, 20n);
});

test("from the first day on, up to the last one without it; of one account when it is named", async () => {
  await using app = await startApp();
  for (const days of [-3, -2, -1]) await app.book(...calls(days, ["a1", "a2", "a2"]));
  const countOf = async (request: Parameters<typeof collect>[1]) => (await collect(app, request)).length;
  assert.equal(await countOf({ fromDay: day(-3), untilDay: day(-1) }), 6);
  assert.equal(await countOf({ accountId: "a2", fromDay: day(-2), untilDay: day(0) }), 4);
  assert.equal(await countOf({ accountId: "a3", fromDay: day(-2), untilDay: day(0) }), 0);
});

test("days without lines, however far off, are empty", async () => {
  await using app = await startApp();
  assert.deepEqual(await collect(app, { fromDay: "1970-01-01", untilDay: "2000-01-01" }), []);
  assert.deepEqual(await collect(app, { fromDay: "2999-01-01", untilDay: "9999-12-31" }), []);
  await app.book({});
  assert.equal((await collect(app, { fromDay: "0001-01-01", untilDay: "9999-12-31" })).length, 1);
});

test("a page is read only when it is wanted, and a reader that leaves keeps no connection", async () => {
  await using app = await startApp();
  await app.book(
    ...calls(
      0,
      Array.from({ length: 1_200 }, () => "a1"),
    ),
  );
  const { pool } = app.ledger;
  let pages = 0;
  const counting = new Proxy(pool, {
    get: (target, name) => {
      if (name === "connect") pages += 1;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const request = { $typeName: "billing.v1.ExportLinesRequest" as const, accountId: "", ...all };
  const lengths: (number | undefined)[] = [];
  for await (const { lines } of exportLines(counting, request)) {
    lengths.push(lines?.length);
    assert.equal(pages, lengths.length);
    if (lengths.length === 2) break;
  }
  assert.deepEqual(lengths, [50, 500], "the first page is short, so that a file begins at once");
  for await (const _page of app.streams.exportLines(request)) break;
  await until("every connection is idle", () => pool.idleCount === pool.totalCount);
});

test("days that make no sense and a ledger that is away are told as such", async () => {
  await using app = await startApp();
  const refused: [Parameters<typeof collect>[1], RegExp][] = [
    [{ fromDay: "", untilDay: "2027-01-01" }, /^from_day must be a day like/],
    [{ fromDay: "2027-01-01", untilDay: "2027-02-30" }, /^until_day must be a day like/],
    [{ fromDay: "2027-01-02", untilDay: "2027-01-02" }, /^until_day must be after from_day/],
    [{ accountId: "a b", ...all }, /^account_id must be/],
  ];
  for (const [request, message] of refused) {
    await assert.rejects(collect(app, request), { code: "invalid_argument", message });
  }
  await server.postgres.kill();
  const refusal = await until("the last session of the killed server is gone", () =>
    collect(app, all).then(
      () => undefined,
      (error: unknown) => error,
    ),
  );
  assert.equal((refusal as { code: string }).code, "unavailable");
  await server.postgres.restart();
});
