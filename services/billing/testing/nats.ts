import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { natsProgram } from "#shared/testing/nats.ts";
import { startStore, type Store } from "#shared/testing/store.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";

/** A NATS server whose data can be taken away from it. */
export type TestNats = Store & {
  /** Kills it, deletes all that JetStream has stored, and starts it again. */
  wipe: () => Promise<void>;
  /** A connection of the test's own. */
  connect: () => Promise<NatsConnection>;
};

export async function startNats(): Promise<TestNats> {
  const binary = findStoreBinary("nats");
  if (!binary) throw new Error("nats is not installed; `npm test` installs it, or says how");
  const folder = await mkdtemp(join(tmpdir(), "billing-nats-"));
  removeAtEnd(folder);
  const store = await startStore(natsProgram({ binary, folder, orphanSignal: "SIGKILL" }));
  const own = {
    wipe: async () => {
      await store.kill();
      await rm(join(folder, "jetstream"), { recursive: true, force: true });
      await store.restart();
    },
    connect: () => connect({ servers: store.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 }),
  };
  return Object.assign(store, own);
}
