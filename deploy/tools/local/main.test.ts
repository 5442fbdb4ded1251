import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { costNanos } from "#shared/money/pricing.ts";
import { createLog } from "#shared/process/log.ts";
import type { GrpcFiles } from "#shared/stores/link-variables.ts";
import { startProcess } from "#shared/testing/child-process.ts";
import { until } from "#shared/testing/until.ts";
import { runCommand } from "../admin/program.ts";
import type { Addresses } from "./stack.ts";

const run = promisify(execFile);
const startTimeoutMs = 90_000;

// The demo model's prices in nano-USD per 1,000,000 tokens, as the catalog of the local stack has them.
const demoPrices = { inputTokens: 150_000_000n, cacheReadTokens: 75_000_000n, outputTokens: 600_000_000n };

const demoNanosPerVideoSecond = 100_000_000n;

/** Runs `npm start` on a folder of its own until it has printed the curl line and the one for other examples. */
async function start(folder: string) {
  const lines: string[] = [];
  const stack = await startProcess({
    command: process.execPath,
    args: [join(import.meta.dirname, "main.ts"), "--folder", folder],
    environment: { PATH: process.env["PATH"], HOME: process.env["HOME"], POLL_INTERVAL_MS: "200" },
    orphanSignal: "SIGTERM",
    onLine: (line) => lines.push(line),
  });
  const find = (start: string): string | undefined => lines.find((line) => line.startsWith(start));
  await until("an export line", () => find("export ") ?? !stack.isRunning(), startTimeoutMs);
  const [curl, exports] = [find("curl "), find("export ")];
  if (!curl || !exports) throw new Error(`npm start failed:\n${lines.join("\n")}`);
  const addresses = JSON.parse(readFileSync(join(folder, "addresses.json"), "utf8")) as Addresses & GrpcFiles;
  return { stack, lines, curl, exports, addresses };
}

/** Runs the printed line that makes a video, and waits for its file; gives its price in nano-USD. */
async function makeVideo({ lines, exports }: { lines: string[]; exports: string }): Promise<bigint> {
  const { stdout } = await run("sh", ["-c", lines.find((line) => /^curl \S+\/v1\/videos /.test(line)) ?? ""]);
  const { id, seconds } = JSON.parse(stdout) as { id: string; seconds: string };
  const [, url, key] = /BASE_URL=(\S+) API_KEY=(\S+)/.exec(exports) ?? [];
  const headers = { authorization: `Bearer ${key}`, connection: "close" };
  const file = await until("its file is there", async () => {
    const answer = await fetch(`${url}/v1/videos/${id}/content`, { headers });
    const bytes = await answer.bytes();
    return answer.ok && bytes;
  });
  assert.ok(file && file.length > 0);
  return BigInt(seconds) * demoNanosPerVideoSecond;
}

/** What the welcome says of the console: its address, and the token for its first operator. */
function consoleOf(lines: readonly string[]): { url: string; token: string } {
  const [, url = "", token = ""] = /^ +Console +(\S+)\n.* with (\S+)$/m.exec(lines.join("\n")) ?? [];
  return { url, token };
}

async function ledgerOf({ billingAddress, ...told }: Addresses & GrpcFiles) {
  using credentials = openGrpcCredentials(told, createLog("test", "silent"));
  using channel = connectGrpc(billingAddress, credentials, "billing");
  const billing = unaryClient(BillingService, channel, 5_000);
  const { lines } = await billing.listLedgerLines({ accountId: "acct_local" });
  const { balanceNanos } = await billing.getBalance({ accountId: "acct_local" });
  return { charges: lines.filter(({ rid }) => rid !== ""), balanceNanos };
}

/** Makes a backup of the running stack, with no variables but what it has left. */
async function backUp(folder: string): Promise<void> {
  const words: string[] = [];
  const code = await runCommand(["backup", join(folder, "backup")], {
    environment: {},
    addressesFile: join(folder, "addresses.json"),
    output: { answer: (text) => void words.push(text), aside: (text) => void words.push(text) },
  });
  assert.equal(code, 0, words.join(""));
  const { files } = JSON.parse(readFileSync(join(folder, "backup/manifest.json"), "utf8")) as { files: object[] };
  assert.equal(files.length, 4, "the database, two streams and the catalog");
  assert.equal(statSync(join(folder, "addresses.json")).mode & 0o777, 0o600, "it has passwords");
}

test("npm start prints curl lines that stream and make a video; each is one ledger line of price × usage; a second start keeps them", async () => {
  const folder = await mkdtemp(join(tmpdir(), "relay-start-"));
  try {
    const first = await start(folder);
    const { stdout } = await run("sh", ["-c", first.curl]);
    assert.match(stdout, /^data: \{.*"delta"/);
    assert.match(stdout, /data: \[DONE\]\s*$/);
    const listed = 'curl -sS --fail-with-body "$BASE_URL/v1/models" -H "Authorization: Bearer $API_KEY"';
    assert.match((await run("sh", ["-c", `${first.exports}\n${listed}`])).stdout, /"demo-transcription"/);
    const { url, token } = consoleOf(first.lines);
    const page = await fetch(`${url}/sign-in`, { headers: { connection: "close" } });
    assert.match(await page.text(), /<h1>Sign in<\/h1>/);
    assert.match(token, /^[\w-]{43}$/);
    assert.equal(first.lines.filter((line) => line.includes(token)).length, 1, "in no line of the log");

    const { charges, balanceNanos: balanceBefore } = (await until("the call is booked", async () => {
      const ledger = await ledgerOf(first.addresses);
      return ledger.charges.length > 0 && ledger;
    })) as Awaited<ReturnType<typeof ledgerOf>>;
    assert.equal(charges.length, 1);
    const usage = charges[0]?.usage?.usage;
    assert.ok(usage && usage.inputTokens > 0n && usage.outputTokens > 0n);
    const { inputTokens, cacheReadTokens, outputTokens } = usage;
    const cost = costNanos({ inputTokens, cacheReadTokens, outputTokens }, demoPrices);
    assert.equal(charges[0]?.amountNanos, -cost);
    assert.equal(balanceBefore, 100_000_000_000n - cost);

    const videoNanos = await makeVideo(first);
    const balanceNanos = balanceBefore - videoNanos;
    await until("the video is booked", async () => (await ledgerOf(first.addresses)).balanceNanos === balanceNanos);

    await backUp(folder);
    await first.stack.end("SIGINT", 60_000);
    assert.equal(await first.stack.ended, "exit code 0");
    assert.equal(existsSync(join(folder, "lock")), false);

    const second = await start(folder);
    assert.equal(second.curl, first.curl, "ports and key are kept");
    assert.deepEqual(consoleOf(second.lines), { url, token }, "and the console's token");
    assert.equal((await ledgerOf(second.addresses)).balanceNanos, balanceNanos);
    await run("sh", ["-c", second.curl]);
    await second.stack.end("SIGTERM", 60_000);
    assert.equal(await second.stack.ended, "exit code 0");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
