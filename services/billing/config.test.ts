import assert from "node:assert/strict";
import { test } from "node:test";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { readConfig } from "./config.ts";

const given = {
  DATABASE_URL: "postgres://a",
  NATS_URL: "nats://a",
  AUTH_QUOTA_ADDRESS: "a:1",
  HOLD_PROOF_KEYS: holdProofKeys,
  ALLOW_PLAIN_GRPC: "always",
};
const bucket = {
  LEDGER_ARCHIVE_URL: "https://s3.example/books",
  LEDGER_ARCHIVE_KEY_ID: "a",
  LEDGER_ARCHIVE_SECRET: "b",
};

test("without an archive all lines stay; with one they stay for 90 days at least, and it is whole", () => {
  assert.equal(readConfig(given).LEDGER_KEEP_DAYS, 0);
  const whole = { ...given, ...bucket, LEDGER_KEEP_DAYS: "90", RECONCILE_SIGNING_KEY_FILE: "key.pem" };
  assert.equal(readConfig(whole).LEDGER_KEEP_DAYS, 90);
  assert.equal(
    readConfig({ ...given, LEDGER_ARCHIVE_URL: "file:///archive" }).LEDGER_KEEP_DAYS,
    0,
    "to read back only",
  );
  const refused: [Record<string, string>, RegExp][] = [
    [{ LEDGER_KEEP_DAYS: "89" }, /must be 0 or at least 90/],
    [{ LEDGER_ARCHIVE_URL: "" }, /LEDGER_ARCHIVE_URL is not/],
    [{ RECONCILE_SIGNING_KEY_FILE: "" }, /no RECONCILE_SIGNING_KEY_FILE/],
    [{ LEDGER_ARCHIVE_URL: "s3://books" }, /must be like file:\/\/\/folder or https/],
    [{ LEDGER_ARCHIVE_SECRET: "" }, /set LEDGER_ARCHIVE_KEY_ID and LEDGER_ARCHIVE_SECRET/],
  ];
  for (const [change, words] of refused) assert.throws(() => readConfig({ ...whole, ...change }), words);
});
