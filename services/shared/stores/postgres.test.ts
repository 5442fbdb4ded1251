import assert from "node:assert/strict";
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createPool } from "./postgres.ts";
import { makeAuthority } from "../testing/authority.ts";
import { showCertificate } from "../testing/postgres-tls.ts";
import { startStores } from "../testing/stores.ts";

/** Asks on a connection of its own whether it is encrypted. */
async function isEncrypted(url: string): Promise<boolean> {
  await using pool = createPool(url, "test", () => undefined);
  const { rows } = await pool.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
  return (rows[0] as { ssl: boolean }).ssl;
}

test("sslmode=verify-full encrypts, and knows PostgreSQL by its authority and its name; the file is read anew", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "postgres-tls-"));
  chmodSync(folder, 0o711);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [ours, theirs] = await Promise.all([makeAuthority(folder, "ours"), makeAuthority(folder, "theirs")]);
  const shown = { certFile: join(folder, "server.cert"), keyFile: join(folder, "server.key") };
  await ours.issue(shown, "server", "DNS:localhost");
  await using stores = await startStores({ postgres: true });
  const plain = stores.postgres.url;
  const caFile = join(folder, "ca.pem");
  copyFileSync(ours.caFile, caFile);
  const verified = `${plain.replace("127.0.0.1", "localhost")}?sslmode=verify-full&sslrootcert=${caFile}`;

  await assert.rejects(isEncrypted(verified), /does not support SSL/);
  await showCertificate(plain, shown);
  assert.equal(await isEncrypted(plain), false);
  assert.equal(await isEncrypted(verified), true);
  await assert.rejects(isEncrypted(verified.replace("localhost", "127.0.0.1")), /altnames/);
  await using pool = createPool(verified, "test", () => undefined);
  await pool.query("SELECT 1");
  copyFileSync(theirs.caFile, caFile);
  await assert.rejects(isEncrypted(verified), /self-signed|unable to verify/);
  const other = pool.query("SELECT pg_sleep(0.1)");
  await assert.rejects(pool.query("SELECT 1"), /self-signed|unable to verify/, "the pool's next connection, too");
  await other;
  copyFileSync(ours.caFile, caFile);
  assert.equal(await isEncrypted(verified), true);
});
