import assert from "node:assert/strict";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ServiceError } from "#shared/process/errors.ts";
import { readAddresses } from "./config.ts";
import { runCommand } from "./program.ts";
import { runAgainst } from "./testing/stub-services.ts";

const credit = (amount: string): string[] => ["credit", "acct_1", amount, "--payment-id", "p1"];

const mistakes: [says: string, words: string[], sentence: RegExp][] = [
  [
    "an amount that is no number",
    credit("ten"),
    /value 'ten' is invalid for argument 'usd'. It must be an amount in USD/,
  ],
  ["a tenth decimal", credit("1.0000000001"), /at most nine decimals/],
  ["a comma for a point", credit("1,5"), /at most nine decimals/],
  ["more than an account may hold", credit("9007199.254740992"), /The most is 9007199.254740991 USD/],
  ["a payment without its id", ["credit", "acct_1", "5"], /required option '--payment-id <id>' not specified/],
  ["a day that the calendar lacks", ["key", "expire", "key_1", "2027-02-30"], /must be a day or an instant/],
  ["an instant without its offset from UTC", ["key", "expire", "key_1", "2027-01-31T12:00:00"], /must be a day/],
  ["a list of models with a hole", ["key", "models", "key_1", "a,,b"], /must be names separated by commas/],
  ["a rate that is no whole number", ["account", "rate", "acct_1", "1.5"], /must be a whole number/],
  ["a grouping that does not exist", ["usage", "acct_1", "--by", "week"], /Allowed choices are day, model, key/],
  [
    "a refund of nothing, which would be a refund of all",
    ["refund", "acct_1", "r1", "0", "--id", "f", "--reason", "r"],
    /must be more than 0/,
  ],
  ["an export of instants", ["export", "--from", "2026-11-01T00:00Z", "--until", "2026-11-02"], /must be a day like/],
  ["a statement without its end", ["statement", "acct_1", "--from", "2026-11-01"], /required option '--until <time>'/],
  ["a command that does not exist", ["frobnicate"], /unknown command 'frobnicate'/],
  ["an option that does not exist", ["balance", "acct_1", "--loud"], /unknown option '--loud'/],
  ["an account that is not named", ["balance"], /missing required argument 'account'/],
  ["one word too many", ["balance", "acct_1", "acct_2"], /too many arguments/],
];

for (const [says, words, sentence] of mistakes) {
  test(`${says} ends with 1 and one sentence, and no service is asked`, async () => {
    const ended = await runAgainst({}, ...words);
    assert.equal(ended.code, 1);
    assert.match(ended.aside, /^error: [^\n]+\n$/);
    assert.match(ended.aside, sentence);
    assert.deepEqual([ended.answer, ended.asked], ["", []]);
  });
}

test("the largest amount that an account may hold is taken exactly", async () => {
  const { asked } = await runAgainst({}, ...credit("9007199.254740991"));
  assert.partialDeepStrictEqual(asked.at(-1)?.[1], { amountNanos: "9007199254740991" });
});

test("what a service refuses is told in its own words", async () => {
  const deleteKey = new ServiceError("not_found", "key key_1 does not exist");
  const ended = await runAgainst({ deleteKey }, "key", "delete", "key_1");
  assert.deepEqual([ended.code, ended.answer, ended.aside], [1, "", "error: key key_1 does not exist\n"]);
});

test("money for an account that does not exist never reaches the ledger", async () => {
  const listKeys = new ServiceError("not_found", "account acct_1 does not exist");
  for (const words of [credit("5"), ["correct", "acct_1", "-5", "--id", "c", "--reason", "r"]]) {
    const ended = await runAgainst({ listKeys }, ...words);
    assert.deepEqual([ended.code, ended.aside], [1, "error: account acct_1 does not exist\n"]);
    assert.deepEqual(
      ended.asked.map(([method]) => method),
      ["listKeys"],
    );
  }
});

test("a service that cannot answer now is named with its address and its words", async () => {
  const getBalance = new ServiceError("unavailable", "PostgreSQL does not answer");
  const { code, aside } = await runAgainst({ getBalance }, "balance", "acct_1");
  assert.equal(code, 1);
  assert.match(
    aside,
    /^error: billing.v1.BillingService at 127\.0\.0\.1:\d+ is unavailable: PostgreSQL does not answer\n$/,
  );
});

test("a service that fails inside is named, and its log is pointed to", async () => {
  const { aside } = await runAgainst({ getBalance: new Error("password=hunter2") }, "balance", "acct_1");
  assert.match(aside, /^error: billing\.v1\.BillingService at .* failed: internal error; see its log\n$/);
});

test("a service that is not there is told in one sentence", async () => {
  let aside = "";
  const code = await runCommand(["account", "list"], {
    environment: { ALLOW_PLAIN_GRPC: "always", AUTH_QUOTA_ADDRESS: "127.0.0.1:1", BILLING_ADDRESS: "127.0.0.1:1" },
    addressesFile: "none",
    output: { answer: () => assert.fail(), aside: (text) => void (aside += text) },
  });
  const sentence = "error: authquota.v1.AuthQuotaService at 127.0.0.1:1 does not answer; is it running?\n";
  assert.deepEqual([code, aside], [1, sentence]);
});

test("help is no error and needs no service", async () => {
  const ended = await runAgainst({}, "key", "--help");
  assert.deepEqual([ended.code, ended.aside, ended.asked], [0, "", []]);
  assert.match(ended.answer, /create \[options\] <account>/);
});

test("addresses come from the environment first, then from the local stack; with neither, both are named", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "admin-"));
  const file = join(folder.path, "addresses.json");
  const wanted = { message: /set AUTH_QUOTA_ADDRESS to host:port, or start the local stack: npm start/ };
  assert.throws(() => readAddresses({}, file), wanted);
  await writeFile(file, JSON.stringify({ authQuotaAddress: "local:1", billingAddress: "local:2" }));
  assert.deepEqual(readAddresses({}, file), { authQuotaAddress: "local:1", billingAddress: "local:2" });
  const given = readAddresses({ BILLING_ADDRESS: "given:2" }, file);
  assert.deepEqual(given, { authQuotaAddress: "local:1", billingAddress: "given:2" });
});
