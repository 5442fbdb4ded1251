import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "#shared/process/errors.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import type { BackupConfig } from "./config.ts";
import { dumpDatabase, readLedgerEpoch } from "./database.ts";
import { type Manifest, writeManifest } from "./manifest.ts";
import { backedUpStreams, saveStream, withNats } from "./streams.ts";

/** A backup that was made. `streamSinceMs`: from when on the usage stream holds everything; undefined: not known. */
export type BackupMade = { manifest: Manifest; streamSinceMs: number | undefined };

/**
 * Writes a backup into an empty or new folder. The streams come after the dump: what the dump lacks because it was
 * booked meanwhile is in them, so that database and streams together are as of one moment, that of the streams.
 */
export async function makeBackup(folder: string, config: BackupConfig): Promise<BackupMade> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if ((await readdir(folder)).length > 0) throw new ServiceError("failed_precondition", `${folder} is not empty`);
  try {
    return await fill(folder, config);
  } catch (error) {
    // Parts of a backup would only take room. The folder itself may be a mounted volume.
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true });
    throw error;
  }
}

async function fill(folder: string, config: BackupConfig): Promise<BackupMade> {
  const { databaseUrl: url, NATS_URL, CATALOG_FILE } = config;
  const madeAt = new Date().toISOString();
  const { epoch: ledgerEpoch } = await readLedgerEpoch(url);
  const files = ["database.dump"];
  await dumpDatabase(url, join(folder, "database.dump"));
  const streams: Manifest["streams"] = {};
  if (NATS_URL !== "") {
    await withNats(config, async (connection) => {
      for (const stream of backedUpStreams) {
        const file = `${stream}.snapshot`;
        const image = await saveStream(connection, stream, join(folder, file));
        files.push(file);
        if (image) streams[stream] = image;
      }
    });
  }
  if (CATALOG_FILE !== "") {
    await copyFile(CATALOG_FILE, join(folder, "catalog.yaml"));
    files.push("catalog.yaml");
  }
  const manifest = await writeManifest(folder, { madeAt, ledgerEpoch, streams, files });
  return { manifest, streamSinceMs: sinceOf(streams[usageStream]?.state) };
}

// JetStream's first message is not the first ever where older ones were dropped, by age or for want of room.
function sinceOf(state: unknown): number | undefined {
  const { first_seq: firstSequence, first_ts: firstTime } = (state ?? {}) as { first_seq?: number; first_ts?: string };
  if (firstSequence === undefined || firstSequence <= 1 || firstTime === undefined) return undefined;
  return Date.parse(firstTime);
}
