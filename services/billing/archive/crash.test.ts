import assert from "node:assert/strict";
import { mkdtempDisposable, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startProcess } from "#shared/testing/child-process.ts";
import { query } from "#shared/testing/postgres.ts";
import { archiveFaultPoints } from "../testing/fault-points.ts";
import { readLedger, startLedger } from "../testing/ledger.ts";
import { oldDay, privateKey, startOldApp } from "../testing/old-day.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const entry = fileURLToPath(new URL("../testing/archive-once.ts", import.meta.url));
const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();

// What a process does that is to die at the point: it is preloaded, and marks of the sources find it.
const killAt = (point: string): string =>
  `data:text/javascript,${encodeURIComponent(
    `globalThis.passFaultPoint = (name) => name === ${JSON.stringify(point)} && process.kill(process.pid, "SIGKILL");`,
  )}`;

test("killed -9 at any point, the same again moves the day out and reads it back, with each line once", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "archive-crash-"));
  await using app = await startOldApp(server.postgres);
  const { url, ownerUrl } = app.ledger;
  await app.billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId: "p" });
  await app.book({}, { accountId: "a_2", keyId: "k_2" }, {});
  await app.close();
  const before = await readLedger(ownerUrl);
  const run = async (way: "archive" | "restore", point = ""): Promise<string> => {
    const args = ["--import", killAt(point), entry, way, url, folder.path, oldDay, pem];
    const environment = { TMPDIR: folder.path };
    const child = await startProcess({ command: process.execPath, args, environment, orphanSignal: "SIGKILL" });
    return await child.ended;
  };
  const { written, signed, readBack } = archiveFaultPoints;
  for (const point of [written, signed]) {
    assert.equal(await run("archive", point), "ended by SIGKILL");
    assert.deepEqual(await readLedger(ownerUrl), before, `${point}: all lines are in the ledger`);
  }
  assert.equal(await run("archive"), "exit code 0");
  assert.deepEqual((await readLedger(ownerUrl)).lines, []);
  assert.deepEqual(await readdir(join(folder.path, oldDay)), ["lines-001.parquet", "manifest.json"]);

  assert.equal(await run("restore", readBack), "ended by SIGKILL");
  assert.deepEqual((await readLedger(ownerUrl)).lines, [], "what is read back in part is not in the ledger");
  await query(ownerUrl, "UPDATE billing.archived_day SET restoring_at = now() - interval '2 days'");
  const tables = `SELECT FROM pg_class WHERE relname LIKE 'restoring\\_%' AND relkind = 'r'`;
  assert.equal((await query(ownerUrl, tables)).rowCount, 1);
  await query(url, "SELECT billing.forget_restores()");
  assert.equal((await query(ownerUrl, tables)).rowCount, 0, "nor kept for longer than a day");

  assert.equal(await run("restore", readBack), "ended by SIGKILL");
  assert.equal(await run("restore"), "exit code 0");
  assert.deepEqual(await readLedger(ownerUrl), before);
});
