import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { query } from "#shared/testing/postgres.ts";
import { createAccounts } from "../store/ledger-epoch.ts";
import { startApp } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

test("accounts with bookings and keys that were charged are listed, page by page", async () => {
  await using app = await startApp(server.postgres);
  await app.book(
    { accountId: "a", keyId: "key_a" },
    { accountId: "b", keyId: "key_b" },
    { accountId: "c", keyId: "k" },
  );
  await app.billing.credit({ accountId: "even", amountNanos: 5n, paymentId: "p" });
  await app.billing.correct({ accountId: "even", amountNanos: -5n, correctionId: "c", reason: "r" });
  await createAccounts(app.ledger.pool, ["untouched"], "untouched");
  await query(
    app.ledger.ownerUrl,
    "UPDATE billing.key_spending SET charged_at = now() - interval '401 days' WHERE key_id = 'k'",
  );
  const listAccounts = async (afterAccountId: string, limit: number) =>
    (await app.billing.listBookedAccounts({ afterAccountId, limit })).accounts.map((one) => [
      one.accountId,
      one.balanceNanos,
    ]);
  assert.deepEqual(await listAccounts("", 2), [
    ["a", -400n],
    ["b", -400n],
  ]);
  assert.deepEqual(await listAccounts("b", 2), [
    ["c", -400n],
    ["even", 0n],
  ]);
  const listKeys = async (afterKeyId: string) =>
    (await app.billing.listBookedKeys({ afterKeyId })).keys.map((one) => [one.keyId, one.accountId, one.spentNanos]);
  assert.deepEqual(await listKeys(""), [
    ["key_a", "a", 400n],
    ["key_b", "b", 400n],
  ]);
  assert.deepEqual(await listKeys("key_a"), [["key_b", "b", 400n]], "k may be forgotten by auth-quota");
  await assert.rejects(listAccounts("'; --", 2), { code: "invalid_argument" });
  await assert.rejects(listKeys("'; --"), { code: "invalid_argument" });
});
