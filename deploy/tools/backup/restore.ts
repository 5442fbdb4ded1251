import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { RestoreConfig } from "./config.ts";
import { loadBeside, readLedgerEpoch, takePlace } from "./database.ts";
import { type Manifest, readManifest } from "./manifest.ts";
import { loadStream, withNats } from "./streams.ts";

/** What was put in place. */
export type Restored = {
  manifest: Manifest;
  /** The database that was there before, under the name that it has now. */
  formerDatabase: string | undefined;
  streams: Record<string, "made" | "found">;
};

/**
 * Puts a backup in the place of the database that is there, which is kept under another name, and makes the streams
 * that NATS lacks. Nothing is touched before the whole dump is loaded. The API is closed in the restored database.
 */
export async function putBackup(folder: string, config: RestoreConfig): Promise<Restored> {
  const manifest = await readManifest(folder);
  const { DATABASE_OWNER_URL: url, NATS_URL } = config;
  const stamp = new Date().toISOString().replaceAll(/\D/g, "");
  const name = await loadBeside(url, join(folder, "database.dump"), stamp);
  const streams: Restored["streams"] = {};
  // Before the ledger: billing makes streams that it does not find, and reads them again for what the ledger lacks.
  if (NATS_URL !== "") {
    await withNats(config, async (connection) => {
      for (const [stream, { config: settings, state }] of Object.entries(manifest.streams)) {
        const image = { config: settings, state };
        streams[stream] = await loadStream(connection, stream, { image, file: join(folder, `${stream}.snapshot`) });
      }
    });
  }
  return { manifest, formerDatabase: await takePlace(url, name, stamp), streams };
}

const lookMs = 500;

/** Waits until billing has begun a new epoch and booked again what the backup lacks; false when it has not in time. */
export async function untilHealed({ DATABASE_OWNER_URL: url }: RestoreConfig, after: number, forMs: number) {
  const deadlineMs = performance.now() + forMs;
  while (performance.now() < deadlineMs) {
    const { epoch, isHealed } = await readLedgerEpoch(url);
    if (epoch > after && isHealed) return true;
    await pause(lookMs);
  }
  return false;
}
