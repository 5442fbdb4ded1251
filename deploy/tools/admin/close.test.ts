import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempDisposable, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { closeColumns, createCloseTally, encodeClose, hashOfContent } from "#shared/money/day-close.ts";
import { signContent } from "#shared/money/report.ts";
import { findProgram } from "#shared/testing/binaries.ts";
import { run } from "../checks/run.ts";
import { runAgainst } from "./testing/stub-services.ts";

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const publicPem = publicKey.export({ type: "spki", format: "pem" }).toString();

/** What billing answers about a day: figures of an account are opening, charges, credits, refunds, corrections. */
function closed(day: string, accounts: Record<string, bigint[]>, previous: { day: string; hash: string }) {
  const units = closeColumns.slice(11).map(() => "0");
  const lines = Object.entries(accounts).map(([account, given]) => {
    const closing = given.reduce((sum, figure) => sum + figure, 0n);
    return [day, account, ...given, closing, 3, 20, 0, ...units].join(",");
  });
  const tally = createCloseTally(day);
  for (const line of lines) tally.add(line);
  const content = encodeClose({
    close: "day.v1",
    made_at: `${day}T01:00:00.000Z`,
    ...tally.end(),
    previous_day: previous.day,
    previous_content_sha256: previous.hash,
    breaks: 0,
  });
  const { signature } = signContent(content, privateKey);
  const listCloseLines = [{ lines: [closeColumns.join(",")] }, { lines }];
  return {
    answers: { closeDay: { close: { day, content, signature, publicKey: publicPem } }, listCloseLines },
    link: { day, hash: hashOfContent(content) },
  };
}

const first = closed(
  "2026-11-29",
  { acct_a: [5_000n, -1_200n, 0n, 200n, 0n], acct_b: [0n, 0n, 900n, 0n, -7n] },
  { day: "", hash: "" },
);
const second = closed(
  "2026-11-30",
  { acct_a: [4_000n, -300n, 0n, 0n, 10n], acct_b: [893n, 0n, 0n, 0n, 0n] },
  first.link,
);

async function written() {
  const folder = await mkdtempDisposable(join(tmpdir(), "close-"));
  const days = join(folder.path, "days");
  for (const [day, { answers }] of [["2026-11-29", first] as const, ["2026-11-30", second] as const]) {
    const ended = await runAgainst(answers, "close", "--day", day, "--output", days);
    assert.equal(ended.code, 0, ended.aside);
  }
  const key = join(folder.path, "public.pem");
  await writeFile(key, publicPem);
  const files = ["2026-11-29.json", "2026-11-30.json"].map((name) => join(days, name));
  return { days, files, key, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

test("a close is shown with its sums, and written as a file of lines and its signature", async () => {
  const shown = await runAgainst(first.answers, "close", "--day", "2026-11-29");
  assert.match(
    shown.answer,
    /^day +2026-11-29\n.*\naccounts +2\n.*\nopening balances +0\.000005000\ncharges +-0\.000001200\n/,
  );
  await using folder = await written();
  assert.deepEqual((await readdir(folder.days)).toSorted(), [
    "2026-11-29.csv",
    "2026-11-29.json",
    "2026-11-30.csv",
    "2026-11-30.json",
  ]);
  const verified = await runAgainst({}, "close", "verify", ...folder.files.toReversed(), "--key", folder.key);
  assert.deepEqual([verified.code, verified.answer], [0, folder.files.map((file) => `${file}: valid\n`).join("")]);
  assert.deepEqual(verified.asked, []);
});

test("lines that are not those that were signed are not written", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "close-"));
  const answers = { ...first.answers, listCloseLines: second.answers.listCloseLines };
  const ended = await runAgainst(answers, "close", "--day", "2026-11-29", "--output", folder.path);
  assert.deepEqual([ended.code, await readdir(folder.path)], [1, []]);
});

test("verify finds a changed figure, another key, a changed total and a day that is missing", async () => {
  await using folder = await written();
  const verify = (key = folder.key, files = folder.files) => runAgainst({}, "close", "verify", ...files, "--key", key);
  const other = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }).toString();
  await writeFile(`${folder.key}.other`, other);
  assert.match((await verify(`${folder.key}.other`)).answer, /not signed by this key\n.*not signed by this key\n$/);

  const [file = ""] = folder.files;
  const csv = file.replace(".json", ".csv");
  const [lines, signature] = [await readFile(csv, "utf8"), await readFile(file, "utf8")];
  await writeFile(csv, lines.replace("5000,-1200,0,200", "5000,-1200,0,201"));
  assert.match((await verify()).answer, /acct_a does not add up to its closing balance\n/);
  await writeFile(csv, lines.replace("5000,-1200,0,200,0,4000", "5000,-1200,0,201,0,4001"));
  assert.match((await verify()).answer, /not what was signed: refunds_nanos, closing_nanos, file_sha256\n/);
  await writeFile(csv, lines.split("\n").slice(0, -2).join("\n"));
  assert.match((await verify()).answer, /not what was signed: .*accounts/);
  await writeFile(csv, lines);
  await writeFile(file, signature.replace(String.raw`\"calls\":\"6\"`, String.raw`\"calls\":\"7\"`));
  const changed = await verify();
  assert.deepEqual([changed.code, /29.json: not signed by this key/.test(changed.answer)], [1, true]);
  await writeFile(file, signature);
  assert.equal((await verify()).code, 0);

  const third = closed("2026-11-30", { acct_a: [4_000n, 0n, 0n, 0n, 0n] }, { day: "2026-11-29", hash: "other" });
  await runAgainst(third.answers, "close", "--day", "2026-11-30", "--output", folder.days);
  assert.match((await verify()).answer, /30.json: it follows another close of the day before\n$/);
});

test("invoices and credit notes of a period come from days that verify, the same each time", async () => {
  await using folder = await written();
  const words = ["close", "invoices", ...folder.files, "--key", folder.key];
  const csv = await runAgainst({}, ...words);
  assert.equal(
    csv.answer,
    [
      "number,kind,reason,account_id,from_day,last_day,calls,amount_nanos",
      "acct_a/2026-11-29/2026-11-30/usage,invoice,usage,acct_a,2026-11-29,2026-11-30,6,1500",
      "acct_a/2026-11-29/2026-11-30/refunds,credit note,refunds,acct_a,2026-11-29,2026-11-30,0,200",
      "acct_a/2026-11-29/2026-11-30/corrections,credit note,corrections,acct_a,2026-11-29,2026-11-30,0,10",
      "acct_b/2026-11-29/2026-11-30/corrections,invoice,corrections,acct_b,2026-11-29,2026-11-30,0,7",
      "",
    ].join("\n"),
  );
  const json = await runAgainst({}, ...words, "--format", "json");
  assert.partialDeepStrictEqual(JSON.parse(json.answer), [{ amount_nanos: "1500", kind: "invoice" }, {}, {}, {}]);
  await writeFile(folder.files[1]?.replace(".json", ".csv") ?? "", "");
  const refused = await runAgainst({}, ...words);
  assert.deepEqual([refused.code, refused.answer], [1, ""]);
});

test("close without a day says what is missing", async () => {
  const ended = await runAgainst({}, "close");
  assert.deepEqual([ended.code, ended.aside], [1, "error: name the day: --day 2027-01-31\n"]);
});

const skip = findProgram("jq") ? false : "jq is not on this machine";
test("the README's lines make events for Lago and Stripe of a day's documents", { skip }, async () => {
  await using place = await written();
  const { answer } = await runAgainst(
    {},
    "close",
    "invoices",
    place.files[0] ?? "",
    "--key",
    place.key,
    "--format",
    "json",
  );
  const documents = join(place.days, "documents.json");
  await writeFile(documents, answer);
  await writeFile(join(place.days, "customers.json"), JSON.stringify({ acct_a: "cus_1" }));
  const readme = await readFile(join(import.meta.dirname, "README.md"), "utf8");
  const lines = [...readme.matchAll(/--format json \| (jq [^`]+)```/g)].map(([, line = ""]) => line);
  assert.equal(lines.length, 2);
  const made = [];
  for (const line of lines) {
    const command = `${line.replace(" TIME ", " 1796000000 ")} <documents.json`.replace("\n <", " <");
    const { code, output, errors } = await run("sh", ["-c", command], place.days);
    assert.equal(code, 0, errors);
    made.push(JSON.parse(output));
  }
  const number = "acct_a/2026-11-29/2026-11-29/usage";
  const lago = {
    transaction_id: number,
    external_subscription_id: "acct_a",
    code: "model_usage",
    timestamp: 1_796_000_000,
    properties: { nanos: "1200", calls: "3" },
  };
  const stripe = {
    event_name: "model_usage",
    identifier: number,
    timestamp: 1_796_000_000,
    payload: { stripe_customer_id: "cus_1", value: "1200" },
  };
  assert.deepEqual(made, [{ events: [lago] }, stripe]);
});
