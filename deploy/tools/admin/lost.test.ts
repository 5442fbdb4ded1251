import assert from "node:assert/strict";
import { test } from "node:test";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { runAgainst } from "./testing/stub-services.ts";

const at = timestampFromDate(new Date("2026-11-20T10:11:12.345Z"));
const accounts = Array.from({ length: 1_500 }, (_, index) => ({
  accountId: `acct_${String(index).padStart(4, "0")}`,
  balanceNanos: 1_500_000_000n,
}));
const keys = ["key_1", "key_2"].map((keyId) => ({ keyId, accountId: "acct_0001", spentNanos: 7n, chargedAt: at }));

const services = (known: { accounts: string[]; keys: string[] }) => ({
  listBookedAccounts: ({ afterAccountId = "" }: { afterAccountId?: string }) => ({
    accounts: accounts.filter(({ accountId }) => accountId > afterAccountId).slice(0, 1_000),
  }),
  listBookedKeys: { keys },
  getAccounts: ({ accountIds = [] }: { accountIds?: string[] }) => ({
    accounts: accountIds.filter((id) => known.accounts.includes(id)).map((accountId) => ({ accountId })),
  }),
  getKeys: { keys: known.keys.map((keyId) => ({ keyId })) },
});
const all = { accounts: accounts.map(({ accountId }) => accountId), keys: ["key_1", "key_2"] };

test("lost lists accounts and keys of the ledger that auth-quota does not know, of all pages, and ends with 1", async () => {
  const known = { accounts: all.accounts.filter((id) => id !== "acct_0003" && id !== "acct_1400"), keys: ["key_2"] };
  const { code, answer, aside } = await runAgainst(services(known), "lost");
  assert.equal(code, 1);
  assert.equal(
    answer,
    [
      "account    balance in USD",
      "acct_0003     1.500000000",
      "acct_1400     1.500000000",
      "",
      "key    of account  spent in USD  charged last",
      "key_1  acct_0001    0.000000007  2026-11-20T10:11:12Z",
      "",
    ].join("\n"),
  );
  assert.match(aside, /account create --id/);
  const { answer: json } = await runAgainst(services(known), "--json", "lost");
  assert.deepEqual(JSON.parse(json).keys, [
    { keyId: "key_1", accountId: "acct_0001", spentNanos: "7", chargedAt: "2026-11-20T10:11:12Z" },
  ]);
});

test("lost ends with 0 where everything is known", async () => {
  const { code, answer } = await runAgainst(services(all), "lost");
  assert.deepEqual([code, answer], [0, "auth-quota knows every account and key of the ledger\n"]);
});
