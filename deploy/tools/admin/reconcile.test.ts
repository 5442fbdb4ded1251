import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Finding } from "#proto/billing/v1/billing_pb.ts";
import { contentOf, signContent, toMessage, type ReportLine } from "#shared/money/report.ts";
import { runAgainst } from "./testing/stub-services.ts";

const day = "2026-11-20";
const nowMs = Date.parse("2026-11-21T00:15:00Z");
const window = { day, fromMs: Date.parse(`${day}T00:00:00Z`), untilMs: Date.parse("2026-11-21T00:00:00Z"), nowMs };
const sound = {
  check: "R1",
  name: "sums",
  finding: Finding.RIGHT,
  summary: "2 accounts",
  differenceNanos: 0n,
  items: [],
};
const off = {
  ...sound,
  check: "R5",
  finding: Finding.WRONG,
  summary: "off",
  differenceNanos: 7n,
  items: ["acct_1: 7"],
};
const away = { ...sound, check: "R4", finding: Finding.UNCHECKED, summary: "NATS is away" };
const loss = { ...sound, check: "R9", finding: Finding.LISTED, summary: "one", items: ["loss"] };

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const kept = (...lines: ReportLine[]) => signContent(contentOf({ ...window, lines }), privateKey);
const pem = publicKey.export({ type: "spki", format: "pem" }).toString();

test("reconcile tells every check and ends with 0 when all is right or explained", async () => {
  const { code, answer, asked } = await runAgainst(
    { reconcile: { report: toMessage(kept(sound, loss)) } },
    "reconcile",
    "--day",
    day,
  );
  assert.equal(code, 0);
  assert.deepEqual(asked, [["reconcile", { day }]]);
  assert.match(answer, /^R1 +sums +right +0\.000000000 +2 accounts$/m);
  assert.match(answer, /^R9:\n {2}loss$/m);
  assert.match(answer, /^unexplained difference in USD +0\.000000000$/m);
  assert.match(answer, /^signature +signed and kept$/m);
});

test("reconcile ends with 1 when something is wrong, with 2 when something is unchecked, wrong first", async () => {
  const codeOf = async (...lines: ReportLine[]): Promise<number> =>
    (await runAgainst({ reconcile: { report: toMessage(kept(...lines)) } }, "reconcile")).code;
  assert.deepEqual(await Promise.all([codeOf(sound, off), codeOf(sound, away), codeOf(away, off)]), [1, 2, 1]);
  const { answer } = await runAgainst({ reconcile: { report: toMessage(kept(off)) } }, "reconcile");
  assert.match(answer, /^unexplained difference in USD +0\.000000007$/m);
});

test("reconcile --json is one document with amounts as strings", async () => {
  const { answer, code } = await runAgainst({ reconcile: { report: toMessage(kept(off)) } }, "reconcile", "--json");
  assert.equal(code, 1);
  assert.partialDeepStrictEqual(JSON.parse(answer), {
    day,
    unexplainedNanos: "7",
    lines: [{ check: "R5", finding: "FINDING_WRONG", differenceNanos: "7", items: ["acct_1: 7"] }],
  });
});

test("report shows what was signed, and whose signature it is", async () => {
  const answered = { ...toMessage(kept(sound)), lines: [], unexplainedNanos: 99n };
  const { code, answer } = await runAgainst({ getReport: { report: answered } }, "report", day);
  assert.equal(code, 0);
  assert.match(answer, /^R1 +sums +right/m);
  assert.match(answer, /^signature +valid, by the key sha256:[0-9a-f]{64}$/m);
  assert.match(answer, /^unexplained difference in USD +0\.000000000$/m);
});

test("report --verify ends with 1 for another key, for a changed content and for one without a signature", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "admin-"));
  const [own, other] = [join(folder.path, "own.pem"), join(folder.path, "other.pem")];
  await writeFile(own, pem);
  await writeFile(other, generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }));
  const report = kept(sound);
  const changed = { ...report, content: Buffer.from(report.content.toString().replace("2 accounts", "3 accounts")) };
  const unsigned = signContent(report.content, undefined);
  const verify = async (answered: typeof report, file: string): Promise<[number, string | undefined]> => {
    const { code, answer } = await runAgainst(
      { getReport: { report: toMessage(answered) } },
      "report",
      day,
      "--verify",
      file,
    );
    return [code, /^signature +(valid|NOT VALID|not signed)/m.exec(answer)?.[1]];
  };
  assert.deepEqual(await verify(report, own), [0, "valid"]);
  assert.deepEqual(await verify(report, other), [1, "NOT VALID"]);
  assert.deepEqual(await verify(changed, own), [1, "NOT VALID"]);
  assert.deepEqual(await verify(unsigned, own), [1, "not signed"]);
});
