import { readdir, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { peekManifest } from "./manifest.ts";

/**
 * Deletes the oldest whole backups beside this one, so that at most `count` stay, this one included. What has no
 * manifest is not touched: it is something else, or being written. Gives the names of deleted folders.
 */
export async function dropOldBackups(folder: string, count: number): Promise<string[]> {
  const own = basename(resolve(folder));
  const parent = dirname(resolve(folder));
  const found: { name: string; madeAt: string }[] = [];
  for (const { name } of (await readdir(parent, { withFileTypes: true })).filter((entry) => entry.isDirectory())) {
    const manifest = name === own ? undefined : await peekManifest(join(parent, name));
    if (manifest) found.push({ name, madeAt: manifest.madeAt });
  }
  const newestFirst = found.toSorted((one, other) => (one.madeAt < other.madeAt ? 1 : -1));
  const dropped = newestFirst.slice(count - 1).map(({ name }) => name);
  for (const name of dropped) await rm(join(parent, name), { recursive: true });
  return dropped;
}
