import assert from "node:assert/strict";
import { test } from "node:test";
import { runAgainst } from "./testing/stub-services.ts";

type Row = [words: string, method: string, request: object];

const rows: Row[] = [
  [
    "account create --name Shop",
    "createAccount",
    { name: "Shop", accountId: "", requestsPerMinute: 0, maxConcurrent: 0 },
  ],
  [
    "account create --name S --id acct_1 --requests-per-minute 90 --max-concurrent 5",
    "createAccount",
    { name: "S", accountId: "acct_1", requestsPerMinute: 90, maxConcurrent: 5 },
  ],
  ["account suspend acct_1", "updateAccount", { accountId: "acct_1", status: "ACCOUNT_STATUS_SUSPENDED" }],
  ["account activate acct_1", "updateAccount", { accountId: "acct_1", status: "ACCOUNT_STATUS_ACTIVE" }],
  ["account rate acct_1 0", "updateAccount", { accountId: "acct_1", requestsPerMinute: 0 }],
  ["account concurrency acct_1 7", "updateAccount", { accountId: "acct_1", maxConcurrent: 7 }],
  ["account limit acct_1 none", "updateAccount", { accountId: "acct_1", clearLimit: true }],
  [
    "account limit acct_1 7.25 --every week",
    "updateAccount",
    { accountId: "acct_1", limitNanos: "7250000000", limitPeriod: "LIMIT_PERIOD_WEEK" },
  ],
  ["credit acct_1 12.5 --payment-id p1", "credit", { amountNanos: "12500000000", paymentId: "p1", note: "" }],
  ["credit acct_1 0.000000001 --payment-id p1 --note n", "credit", { amountNanos: "1", note: "n" }],
  [
    "correct acct_1 -0.000001500 --id c1 --reason why --rid r1",
    "correct",
    { accountId: "acct_1", amountNanos: "-1500", correctionId: "c1", reason: "why", rid: "r1" },
  ],
  [
    "refund acct_1 r1 --id f1 --reason why",
    "refund",
    { accountId: "acct_1", rid: "r1", amountNanos: "0", refundId: "f1", reason: "why" },
  ],
  ["refund acct_1 r1 0.0000015 --id f1 --reason why", "refund", { amountNanos: "1500" }],
  [
    "statement acct_1 --from 2026-11-01 --until 2026-12-01T00:00:00+01:00",
    "getStatement",
    { accountId: "acct_1", from: "2026-11-01T00:00:00Z", until: "2026-11-30T23:00:00Z" },
  ],
  [
    "invoice compare --upstream openai --from 2026-11-01 --until 2026-12-01",
    "compareInvoice",
    { upstream: "openai", fromDay: "2026-11-01", untilDay: "2026-12-01" },
  ],
  ["key create acct_1 --name n", "createKey", { accountId: "acct_1", name: "n", models: [] }],
  [
    "key create acct_1 --name n --expires 2027-01-31 --limit 5 --models a,b",
    "createKey",
    { expiresAt: "2027-01-31T00:00:00Z", limitNanos: "5000000000", models: ["a", "b"] },
  ],
  ["key create acct_1 --name n --limit 0", "createKey", { limitNanos: "0" }],
  ["key create acct_1 --name n --max-concurrent 3", "createKey", { maxConcurrent: 3 }],
  [
    "key create acct_1 --name n --per-minute 60 --addresses 192.0.2.7,::/0",
    "createKey",
    { requestsPerMinute: 60, addresses: ["192.0.2.7", "::/0"] },
  ],
  ["key rate key_1 0", "updateKey", { keyId: "key_1", requestsPerMinute: 0 }],
  ["key addresses key_1 192.0.2.0/24", "updateKey", { addresses: ["192.0.2.0/24"], clearAddresses: false }],
  ["key addresses key_1 all", "updateKey", { addresses: [], clearAddresses: true }],
  ["key create acct_1 --name n --tags team-a,prod", "createKey", { tags: ["team-a", "prod"] }],
  ["key tags key_1 team-a,prod", "updateKey", { tags: ["team-a", "prod"], clearTags: false }],
  ["key tags key_1 none", "updateKey", { tags: [], clearTags: true }],
  ["key concurrency key_1 0", "updateKey", { keyId: "key_1", maxConcurrent: 0 }],
  ["key list acct_1", "listKeys", { accountId: "acct_1", includeDeleted: false }],
  ["key list acct_1 --deleted", "listKeys", { includeDeleted: true }],
  ["key stop key_1", "updateKey", { keyId: "key_1", status: "KEY_STATUS_STOPPED" }],
  ["key activate key_1", "updateKey", { keyId: "key_1", status: "KEY_STATUS_ACTIVE" }],
  ["key delete key_1", "deleteKey", { keyId: "key_1" }],
  ["key expire key_1 2027-01-31T12:00:00+02:00", "updateKey", { expiresAt: "2027-01-31T10:00:00Z" }],
  ["key expire key_1 never", "updateKey", { clearExpiry: true }],
  ["key limit key_1 7.25", "updateKey", { limitNanos: "7250000000", clearLimit: false }],
  ["key limit key_1 none", "updateKey", { clearLimit: true }],
  ["key models key_1 a,b", "updateKey", { models: ["a", "b"], clearModels: false }],
  ["key models key_1 all", "updateKey", { models: [], clearModels: true }],
  ["balance acct_1", "getBalance", { accountId: "acct_1" }],
  ["balance acct_1", "getHolds", { accountId: "acct_1" }],
  ["holds", "getHolds", { accountId: "" }],
  ["holds acct_1", "getHolds", { accountId: "acct_1" }],
  ["ledger acct_1", "listLedgerLines", { accountId: "acct_1", limit: 100, beforeLineId: "", rid: "" }],
  ["ledger acct_1 --limit 5 --before l --rid r", "listLedgerLines", { limit: 5, beforeLineId: "l", rid: "r" }],
  [
    "usage acct_1 --from 2026-11-01 --until 2026-12-01 --by model",
    "queryUsage",
    { from: "2026-11-01T00:00:00Z", until: "2026-12-01T00:00:00Z", groupBy: "USAGE_GROUPING_MODEL" },
  ],
  ["usage acct_1 --by day", "queryUsage", { groupBy: "USAGE_GROUPING_DAY" }],
  ["usage acct_1 --by key", "queryUsage", { groupBy: "USAGE_GROUPING_KEY" }],
  ["quarantine", "listQuarantine", { limit: 100 }],
];

for (const [words, method, request] of rows) {
  test(`${words} asks ${method} ${JSON.stringify(request)}`, async () => {
    const ended = await runAgainst({}, ...words.split(" "));
    assert.equal(ended.code, 0, ended.aside);
    const asked = ended.asked.filter(([name]) => name === method).map(([, sent]) => sent);
    assert.equal(asked.length, 1);
    assert.partialDeepStrictEqual(asked[0], request);
  });
}

test("what a change does not name is not sent, so that it stays as it is", async () => {
  const { asked } = await runAgainst({}, "account", "suspend", "acct_1");
  const unset = { clearLimit: false, limitPeriod: "LIMIT_PERIOD_UNSPECIFIED" };
  assert.deepEqual(asked, [["updateAccount", { accountId: "acct_1", status: "ACCOUNT_STATUS_SUSPENDED", ...unset }]]);
});

test("use without times is asked for the last 30 days, up to now", async () => {
  const before = Date.now();
  const { asked } = await runAgainst({}, "usage", "acct_1");
  const { from, until } = Object(asked[0]?.[1]) as { from: string; until: string };
  assert.ok(Date.parse(until) >= before && Date.parse(until) <= Date.now());
  assert.equal(Date.parse(until) - Date.parse(from), 30 * 86_400_000);
});

test("accounts are asked for page by page until a page is not full", async () => {
  const ids = Array.from({ length: 1_500 }, (_, index) => `acct_${String(index).padStart(4, "0")}`);
  const listAccounts = ({ afterAccountId }: Record<string, unknown>): object => {
    const rest = ids.filter((id) => id > String(afterAccountId)).slice(0, 1_000);
    return { accounts: rest.map((accountId) => ({ accountId })) };
  };
  const { answer, asked } = await runAgainst({ listAccounts }, "account", "list", "--json");
  const { accounts } = JSON.parse(answer) as { accounts: { accountId: string }[] };
  assert.deepEqual(
    accounts.map((account) => account.accountId),
    ids,
  );
  assert.equal(asked.length, 2);
});
