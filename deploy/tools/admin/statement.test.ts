import assert from "node:assert/strict";
import { test } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { runAgainst } from "./testing/stub-services.ts";

const lines = (...rows: string[]): string => `${rows.join("\n")}\n`;
const span = ["--from", "2026-11-01", "--until", "2026-12-01"];

const statement = {
  openingBalanceNanos: 5_000_000_000n,
  closingBalanceNanos: 4_999_998_600n,
  sums: [
    { kind: LineKind.CHARGE, lines: 2n, amountNanos: -1_500n },
    { kind: LineKind.REFUND, lines: 1n, amountNanos: 100n },
  ],
  models: [{ group: "gpt-5", calls: 2n, chargedNanos: 1_500n, usage: { inputTokens: 24n } }],
  isFinal: true,
};

test("statement is readable: opening balance, sums by kind, closing balance, calls by model", async () => {
  const ended = await runAgainst({ getStatement: statement }, "statement", "acct_1", ...span);
  assert.equal(
    ended.answer,
    lines(
      "acct_1, booked from 2026-11-01T00:00:00Z until 2026-12-01T00:00:00Z, in USD",
      "",
      "opening balance   5.000000000",
      "2 × charge       -0.000001500",
      "1 × refund        0.000000100",
      "closing balance   4.999998600",
      "",
      "model  calls  charged in USD  units",
      "gpt-5      2     0.000001500  input_tokens=24",
    ),
  );
  assert.deepEqual([ended.code, ended.aside], [0, ""]);
});

test("a statement that may still change says so beside it; without calls there is no table", async () => {
  const getStatement = { ...statement, models: [], isFinal: false };
  const ended = await runAgainst({ getStatement }, "statement", "acct_1", ...span);
  assert.match(ended.answer, /closing balance {3}4\.999998600\n$/);
  assert.equal(ended.aside, "not final: more may still be booked within this time\n");
});

const replayed = {
  events: 7n,
  known: 4n,
  missing: 2n,
  missingNanos: 800n,
  rejected: 1n,
  missingRids: ["r2"],
};
const replay = [
  { events: 3n, missing: 1n, missingRids: ["r1"] },
  replayed,
  { ...replayed, missingRids: [], isDone: true },
];

test("replay prints its counts and the missing calls; only a dry run that finds some ends with 1", async () => {
  const dry = await runAgainst({ replay }, "replay", "--dry-run");
  const text = lines(
    "events                      7",
    "known                       4",
    "missing                     2",
    "missing in USD    0.000000800",
    "cannot be booked            1",
    "r1",
    "r2",
  );
  assert.deepEqual([dry.code, dry.answer, dry.aside], [1, text, ""]);
  assert.deepEqual(
    [await runAgainst({ replay }, "replay")].map(({ code, answer }) => [code, answer]),
    [[0, text]],
  );
  const found = await runAgainst({ replay: [{ events: 1n, known: 1n, isDone: true }] }, "replay", "--dry-run");
  assert.equal(found.code, 0);
  const json = await runAgainst({ replay }, "replay", "--dry-run", "--json");
  assert.partialDeepStrictEqual(JSON.parse(json.answer), { missing: "2", isDone: true, missingRids: ["r1", "r2"] });
});

test("a replay names a thousand calls, counts the others, and tells when it was cut short", async () => {
  const rids = Array.from({ length: 1_500 }, (_, index) => `rid_${index}`);
  const many = [
    { missing: 800n, missingRids: rids.slice(0, 800) },
    { missing: 1_500n, missingRids: rids.slice(800), isDone: true },
  ];
  const ended = await runAgainst({ replay: many }, "replay");
  assert.equal(ended.answer.match(/^rid_/gm)?.length, 1_000);
  assert.equal(ended.aside, "500 more calls are not named\n");
  const cut = await runAgainst({ replay: many.slice(0, 1) }, "replay");
  assert.deepEqual([cut.code, cut.aside], [1, "error: the replay ended before its end; run it again\n"]);
  const away = await runAgainst({ replay: [new ServiceError("unavailable", "NATS is not connected")] }, "replay");
  assert.match(away.aside, /^error: billing.v1.BillingService at .* is unavailable: NATS is not connected\n$/);
});
