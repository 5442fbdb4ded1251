import assert from "node:assert/strict";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { AwsClient } from "aws4fetch";
import { findProgram } from "#shared/testing/binaries.ts";
import { startProcess } from "#shared/testing/child-process.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { openBucket } from "./bucket.ts";

const gateway = findProgram("versitygw");
const skip = gateway === undefined && "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 installs a server";
const never = new AbortController().signal;
const login = { accessKeyId: "relay-archive", secretAccessKey: "not/a+secret", region: "eu-central-1" };

/** An S3-compatible server with a bucket. It verifies signatures and the hashes of what it is given. */
async function startS3(folder: string) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  await mkdir(join(folder, "data"));
  const environment = { ROOT_ACCESS_KEY: login.accessKeyId, ROOT_SECRET_KEY: login.secretAccessKey };
  const args = ["--port", `127.0.0.1:${port}`, "--region", login.region, "posix", "--nometa", join(folder, "data")];
  const server = await startProcess({ command: gateway ?? "", args, environment, orphanSignal: "SIGKILL" });
  const admin = new AwsClient({ ...login, service: "s3", retries: 0 });
  await until("there is a bucket", async () => (await admin.fetch(`${url}/books`, { method: "PUT" })).ok, 20_000);
  return { url: `${url}/books/ledger/`, [Symbol.asyncDispose]: () => server.end("SIGTERM", 1_000) };
}

test("a bucket keeps files and texts, says what it lacks, and is not fooled by another key", { skip }, async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "bucket-"));
  await using s3 = await startS3(folder.path);
  const place = openBucket(s3.url, login);
  const path = join(folder.path, "file");
  const bytes = Buffer.alloc(3 * 2 ** 20, "lines of a day ");
  await writeFile(path, bytes);
  await place.putFile("2026-01-31/lines-001.parquet", path, never);
  await place.getFile("2026-01-31/lines-001.parquet", `${path}.read`, never);
  assert.ok(bytes.equals(await readFile(`${path}.read`)));
  assert.ok(bytes.equals(await readFile(join(folder.path, "data/books/ledger/2026-01-31/lines-001.parquet"))));

  assert.equal(await place.getText("2026-01-31/manifest.json", never), undefined);
  await place.putText("2026-01-31/manifest.json", "{ ü }\n", never);
  assert.equal(await place.getText("2026-01-31/manifest.json", never), "{ ü }\n");
  await assert.rejects(place.getFile("2026-01-31/x", path, never), { message: /refuses 2026-01-31\/x: 404/ });

  const other = openBucket(s3.url, { ...login, secretAccessKey: "other" });
  await assert.rejects(other.getText("2026-01-31/manifest.json", never), { message: /: 403 .*SignatureDoesNotMatch/s });
});

test("a bucket that is away is an error that says so", async () => {
  const place = openBucket(`http://127.0.0.1:${await freePort()}/books`, login);
  await assert.rejects(place.getText("x", never), { message: /the archive does not answer/ });
});
