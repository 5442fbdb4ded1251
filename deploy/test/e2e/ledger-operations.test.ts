import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "csv-parse/sync";
import { formatUsd } from "#shared/money/money.ts";
import { compileCache } from "#shared/testing/config.ts";
import { chat, makeCall } from "./ask.ts";
import { checkRefusal, rows as refusals } from "./refusal.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { runnable } from "../../tools/local/bundles.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { authQuotaAddress, billingAddress } = world.stack.addresses;

type CommandResult = { code: number; answer: string; aside: string };

/** Runs the operator's tool as a process of its own. */
function admin(...words: string[]): Promise<CommandResult> {
  const program = runnable(join(import.meta.dirname, "../../tools/admin/main.ts"), {});
  const environment = {
    PATH: process.env["PATH"],
    ...compileCache(),
    ...grpcFilesIn(world.stack.tlsFolder, "admin"),
    AUTH_QUOTA_ADDRESS: authQuotaAddress,
    BILLING_ADDRESS: billingAddress,
  };
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...words], { env: environment }, (error, answer, aside) => {
      resolve({ code: error ? Number(error.code) : 0, answer, aside });
    });
  });
}

async function answerOf(...words: string[]): Promise<string> {
  const { code, answer, aside } = await admin(...words);
  assert.equal(code, 0, aside);
  return answer;
}

const dayMs = 86_400_000;
const day = (days: number): string => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);
const days = ["--from", day(-1), "--until", day(2)];

test("a call, its refund, the statement, the export, a replay and an invoice tell one story", async () => {
  // A call's estimate is more than what the first call leaves of this limit.
  const { accountId, keyId, secret } = await world.createCustomer({ key: { limitNanos: 20_000_000n } });
  const capped = { more: { max_tokens: 1_024 }, behaviour: { usage: { outputTokens: 1_000 } } };
  const call = () => makeCall(world.relayUrl, secret, { side: chat, ...capped });
  const { rid } = await call();
  const { amountNanos, usage } = await world.untilBooked(accountId, rid);
  const charged = formatUsd(-amountNanos);
  checkRefusal(chat, await call(), refusals.keyLimit);

  const refund = ["refund", accountId, rid, "--id", "ref_1", "--reason", "=it was broken"];
  const booked = await answerOf(...refund);
  assert.match(booked, new RegExp(`^amount +${charged}$`, "m"));
  assert.match(booked, /^balance +10\.000000000$/m);
  assert.equal(await answerOf(...refund), booked, "the same again is the same line");
  const more = await admin("refund", accountId, rid, "0.000000001", "--id", "ref_2", "--reason", "r");
  assert.equal(more.code, 1);
  assert.match(more.aside, new RegExp(`^error: nothing is left to refund: the call was charged ${charged} USD`));

  // The refund has given the key its limit back.
  const second = await call();
  assert.equal(second.status, 200);
  await world.untilBooked(accountId, second.rid);

  const statement = await answerOf("statement", accountId, ...days);
  assert.match(statement, /^opening balance +0\.000000000$/m);
  assert.match(statement, new RegExp(`^1 × refund +${charged}$`, "m"));
  assert.match(statement, /^2 × charge +-/m);
  const { balanceNanos } = await world.moneyOf(accountId);
  assert.match(statement, new RegExp(`^closing balance +${formatUsd(balanceNanos)}$`, "m"));

  await using folder = await mkdtempDisposable(join(tmpdir(), "ledger-operations-"));
  const file = join(folder.path, "lines.csv");
  assert.equal(await answerOf("export", ...days, "--account", accountId, "--output", file), `4 lines in ${file}\n`);
  const rows = parse(await readFile(file, "utf8"), { columns: true }) as Record<string, string>[];
  assert.equal(
    rows.reduce((sum, row) => sum + BigInt(row["amount_nanos"] ?? 0), 0n),
    balanceNanos,
  );
  assert.partialDeepStrictEqual(
    rows.find((row) => row["rid"] === rid && row["kind"] === "charge"),
    { account_id: accountId, key_id: keyId, amount_usd: `-${charged}`, output_tokens: "1000", upstream: "fake" },
  );
  assert.equal(rows.find((row) => row["kind"] === "refund")?.["note"], "'=it was broken");
  const ndjson = await answerOf("export", ...days, "--account", accountId, "--format", "ndjson");
  assert.equal(ndjson.trimEnd().split("\n").length, 4);

  const replayed = await answerOf("replay", "--dry-run", "--account", accountId);
  assert.match(replayed, /^events +2$/m);
  assert.match(replayed, /^missing +0$/m);

  const invoice = join(folder.path, "invoice.csv");
  await writeFile(invoice, `date,model,usd\n${day(0)},${usage.modelServed},0.02\n${day(0)},no-such-model,1\n`);
  const columns = ["--columns", "day=date,model=model,cost=usd"];
  assert.match(await answerOf("invoice", "load", invoice, "--upstream", "fake", ...columns), /^added +2$/m);
  const compared = await admin("invoice", "compare", "--upstream", "fake", ...days);
  assert.equal(compared.code, 1);
  assert.match(compared.answer, /no-such-model +1\.000000000 .* off, not in the ledger$/m);
});
