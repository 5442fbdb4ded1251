import assert from "node:assert/strict";
import { test } from "node:test";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { AccountStatus, KeyStatus, LimitPeriod } from "#proto/authquota/v1/authquota_pb.ts";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { runAgainst } from "./testing/stub-services.ts";

const at = timestampFromDate(new Date("2026-11-20T10:11:12.345Z"));
const rid = "019a9f3c-0000-7000-8000-000000000001";
const secret = "sk-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF";
const lines = (...rows: string[]): string => `${rows.join("\n")}\n`;

const key = {
  keyId: "key_1",
  accountId: "acct_1",
  name: "web",
  secretPrefix: "sk-Zm9vYmF",
  status: KeyStatus.ACTIVE,
  limitNanos: 5_000_000_000n,
  models: ["a", "b"],
  createdAt: at,
};

const ledger = {
  lines: [
    {
      lineId: "line_2",
      accountId: "acct_1",
      kind: LineKind.CHARGE,
      amountNanos: -1_500n,
      rid,
      bookedAt: at,
      usage: {
        modelRequested: "gpt-5",
        endCause: EndCause.CLIENT_GONE,
        usage: { inputTokens: 12n, cacheWrite5mTokens: 3n, outputTokens: 34n },
      },
    },
    {
      lineId: "line_1",
      accountId: "acct_1",
      kind: LineKind.CREDIT,
      amountNanos: 100_000_000_000n,
      reference: "p1",
      note: "first",
      bookedAt: at,
    },
  ],
};

test("account list is a table of all accounts", async () => {
  const accounts = [
    { accountId: "acct_1", name: "Shop", status: AccountStatus.ACTIVE, requestsPerMinute: 0, createdAt: at },
    {
      accountId: "acct_22",
      name: "S",
      status: AccountStatus.SUSPENDED,
      requestsPerMinute: 1_200,
      maxConcurrent: 50,
      limitNanos: 5_000n,
      limitPeriod: LimitPeriod.DAY,
      createdAt: at,
    },
  ];
  const { answer } = await runAgainst({ listAccounts: { accounts } }, "account", "list");
  assert.equal(
    answer,
    lines(
      "account  name  status     calls per minute  at once  limit in USD       made",
      "acct_1   Shop  active              default  default  none               2026-11-20T10:11:12Z",
      "acct_22  S     suspended              1200       50  0.000005000 a day  2026-11-20T10:11:12Z",
    ),
  );
});

test("a list without entries says so", async () => {
  assert.equal((await runAgainst({}, "account", "list")).answer, "no accounts\n");
  assert.equal((await runAgainst({}, "key", "list", "acct_1")).answer, "no keys\n");
  assert.equal((await runAgainst({}, "ledger", "acct_1")).answer, "no ledger lines\n");
  assert.equal((await runAgainst({}, "usage", "acct_1")).answer, "no use\n");
  assert.equal((await runAgainst({}, "quarantine")).answer, "nothing is in quarantine\n");
});

test("key create puts the secret alone on standard output, so that a script can take it", async () => {
  const ended = await runAgainst({ createKey: { key, secret } }, "key", "create", "acct_1", "--name", "web");
  assert.equal(ended.answer, `${secret}\n`);
  assert.match(ended.aside, /^key_1 +web +sk-Zm9vYmF… +active +never +5\.000000000 +a,b/m);
});

test("key create --json puts secret and key into one document and says nothing beside it", async () => {
  const ended = await runAgainst({ createKey: { key, secret } }, "key", "create", "acct_1", "--name", "web", "--json");
  assert.partialDeepStrictEqual(JSON.parse(ended.answer), {
    secret,
    key: { keyId: "key_1", limitNanos: "5000000000" },
  });
  assert.equal(ended.aside, "");
});

test("key list shows no more of a secret than its first characters", async () => {
  const keys = [key, { keyId: "key_2", status: KeyStatus.DELETED, secretPrefix: "sk-x", expiresAt: at }];
  const { answer } = await runAgainst({ listKeys: { keys } }, "key", "list", "acct_1", "--deleted");
  assert.match(
    answer,
    /^key_1 +web +sk-Zm9vYmF… +active +never +5\.000000000 +a,b +all( +-){3} +2026-11-20T10:11:12Z$/m,
  );
  assert.match(answer, /^key_2 +- +sk-x… +deleted +2026-11-20T10:11:12Z +none +all +all( +-){4}$/m);
});

test("balance tells all six figures with nine decimals", async () => {
  const { answer } = await runAgainst(
    {
      getBalance: { balanceNanos: -1n, creditedNanos: 100_000_000_000n, chargedNanos: 1_500n, version: 3n },
      getHolds: { heldNanos: 2n, unpostedNanos: 3n, availableNanos: -6n },
    },
    "balance",
    "acct_1",
  );
  assert.equal(
    answer,
    lines(
      "balance     -0.000000001",
      "credited   100.000000000",
      "charged      0.000001500",
      "held         0.000000002",
      "unposted     0.000000003",
      "available   -0.000000006",
    ),
  );
});

test("ledger is a table with the amount to the nano-dollar, the units and the cause of the end", async () => {
  const { answer } = await runAgainst({ listLedgerLines: ledger }, "ledger", "acct_1");
  const [heading, charge, credit] = answer.split("\n");
  assert.match(heading ?? "", /^time +kind +model +units +amount in USD +rid or reference +end$/);
  const used = "input_tokens=12 cache_write_5m_tokens=3 output_tokens=34";
  assert.equal(charge, `2026-11-20T10:11:12Z  charge  gpt-5  ${used}   -0.000001500  ${rid}  client gone`);
  assert.match(credit ?? "", /^2026-11-20T10:11:12Z  credit  -      - +100\.000000000  p1 +first$/);
});

test("ledger --json keeps amounts as decimal strings of nano-USD", async () => {
  const { answer } = await runAgainst({ listLedgerLines: ledger }, "ledger", "acct_1", "--json");
  const document = JSON.parse(answer) as { lines: object[] };
  assert.partialDeepStrictEqual(document.lines[0], {
    amountNanos: "-1500",
    kind: "LINE_KIND_CHARGE",
    rid,
    usage: { usage: { inputTokens: "12", reasoningTokens: "0" } },
  });
});

test("a full page of the ledger tells beside it how to get the next one", async () => {
  const full = await runAgainst({ listLedgerLines: ledger }, "ledger", "acct_1", "--limit", "2");
  assert.equal(full.aside, "there may be more: --before line_1\n");
  assert.equal((await runAgainst({ listLedgerLines: ledger }, "ledger", "acct_1", "--limit", "3")).aside, "");
});

test("a kind of line that this tool does not know yet is shown by its number", async () => {
  const listLedgerLines = { lines: [{ lineId: "l", kind: 99 as LineKind, amountNanos: 1n }] };
  assert.match((await runAgainst({ listLedgerLines }, "ledger", "acct_1")).answer, /unknown 99/);
});

test("usage sums by group", async () => {
  const sums = [{ group: "2026-11-20", calls: 2n, chargedNanos: 3_000n, usage: { inputTokens: 24n } }];
  const { answer } = await runAgainst({ queryUsage: { sums } }, "usage", "acct_1", "--by", "day");
  assert.equal(
    answer,
    lines("day         calls  charged in USD  units", "2026-11-20      2     0.000003000  input_tokens=24"),
  );
});

test("holds of an account tell counts and money, holds of all tell counts only", async () => {
  const getHolds = { openHolds: 2n, heldNanos: 4n, unpostedCalls: 1n, unpostedNanos: 5n, availableNanos: 6n };
  assert.match((await runAgainst({ getHolds }, "holds", "acct_1")).answer, /^available +0\.000000006$/m);
  const all = await runAgainst({ getHolds }, "holds");
  assert.equal(all.answer, lines("open holds      2", "unposted calls  1"));
});

test("quarantine tells number, time, size and reason, and what it held only as JSON", async () => {
  const records = [{ quarantineId: 7n, reason: "unreadable", payload: new Uint8Array([1, 2]), receivedAt: at }];
  const { answer } = await runAgainst({ listQuarantine: { records } }, "quarantine");
  assert.equal(
    answer,
    lines("number  time                  bytes  reason", "     7  2026-11-20T10:11:12Z      2  unreadable"),
  );
  const json = await runAgainst({ listQuarantine: { records } }, "quarantine", "--json");
  assert.partialDeepStrictEqual(JSON.parse(json.answer), { records: [{ quarantineId: "7", payload: "AQI=" }] });
});

test("credit, correct and refund tell the line, its amount and the balance after it", async () => {
  const booked = { line: { lineId: "line_1", amountNanos: -1_500n }, balanceNanos: 98_500n };
  const correct = ["correct", "acct_1", "-0.0000015", "--id", "c", "--reason", "r"];
  const told = lines("line           line_1", "amount   -0.000001500", "balance   0.000098500");
  assert.equal((await runAgainst({ correct: booked }, ...correct)).answer, told);
  const refund = ["refund", "acct_1", "r1", "--id", "f", "--reason", "r"];
  assert.equal((await runAgainst({ refund: booked }, ...refund)).answer, told);
});
