import { chmodSync, chownSync, statSync } from "node:fs";
import { query } from "./postgres.ts";
import type { CertificateFiles } from "./certificate.ts";
import { until } from "./until.ts";

/** Lets a running PostgreSQL, reached by `url` as its owner, take TLS beside plain connections. */
export async function showCertificate(url: string, { certFile, keyFile }: CertificateFiles): Promise<void> {
  const { rows } = await query(url, "SHOW data_directory");
  const { uid, gid } = statSync((rows[0] as { data_directory: string }).data_directory);
  // It takes a key that nobody else can read.
  for (const file of [certFile, keyFile]) {
    chmodSync(file, 0o600);
    chownSync(file, uid, gid);
  }
  await query(url, `ALTER SYSTEM SET ssl_cert_file = '${certFile}'`);
  await query(url, `ALTER SYSTEM SET ssl_key_file = '${keyFile}'`);
  await query(url, "ALTER SYSTEM SET ssl = on");
  await query(url, "SELECT pg_reload_conf()");
  await until("PostgreSQL has TLS", async () => (await query(url, "SHOW ssl")).rows[0]?.ssl === "on");
}
