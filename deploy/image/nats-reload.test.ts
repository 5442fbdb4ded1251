import assert from "node:assert/strict";
import { copyFile, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { startProcess } from "#shared/testing/child-process.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { connectNats } from "#shared/testing/nats-login.ts";

const stores = join(import.meta.dirname, "../stores");
const binary = findStoreBinary("nats");

test(
  "NATS with the settings of compose keeps JetStream over a reload",
  { skip: !binary && "no nats-server" },
  async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "nats-reload-"));
    const [port, monitoring] = [await freePort(), await freePort()];
    const settings = await readFile(join(stores, "nats.conf"), "utf8");
    const own = settings
      .replace("/data", JSON.stringify(join(folder.path, "data")))
      .replace("8222", String(monitoring));
    await writeFile(join(folder.path, "nats.conf"), own);
    await copyFile(join(stores, "nats-users.conf"), join(folder.path, "nats-users.conf"));
    const [ready, reloaded] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const server = await startProcess({
      command: String(binary),
      args: ["-c", join(folder.path, "nats.conf"), "-a", "127.0.0.1", "-p", String(port)],
      environment: { NATS_RELAY_PASSWORD: "one", NATS_BILLING_PASSWORD: "two", NATS_VIDEO_TASK_PASSWORD: "three" },
      orphanSignal: "SIGKILL",
      onLine: (line) => {
        if (line.includes("Server is ready")) ready.resolve();
        if (/Reloaded server configuration|Failed to reload/.test(line)) reloaded.resolve();
      },
    });
    try {
      await Promise.race([
        ready.promise,
        server.ended.then((end) => assert.fail(`${end}: ${server.lastLines().join("\n")}`)),
      ]);
      await writeFile(join(folder.path, "nats.conf"), `${own}\n# changed\n`);
      process.kill(server.pid, "SIGHUP");
      await reloaded.promise;
      const connection = await connectNats(`nats://billing:two@127.0.0.1:${port}`);
      const { data } = await connection.request("$JS.API.INFO", "", { timeout: 5_000 });
      assert.match(new TextDecoder().decode(data), /account_info_response/);
      await connection.close();
    } finally {
      await server.end("SIGKILL");
    }
  },
);
