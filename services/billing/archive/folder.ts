import { createReadStream, createWriteStream } from "node:fs";
import { copyFile, mkdir, open, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { ArchiveFault, type ArchivePlace } from "./place.ts";

/** A folder, such as one on a volume. */
export function openFolder(folder: string): ArchivePlace {
  const keep = async (name: string, write: (part: string) => Promise<void>): Promise<void> => {
    const path = join(folder, name);
    const part = `${path}.part`;
    await mkdir(dirname(path), { recursive: true });
    await write(part);
    await syncToDisk(part);
    await rename(part, path);
    await syncToDisk(dirname(path));
  };
  return {
    putFile: (name, path) => keep(name, (part) => copyFile(path, part)),
    putText: (name, text) => keep(name, (part) => writeFile(part, text)),
    getFile: async (name, path, stop) => {
      try {
        await pipeline(createReadStream(join(folder, name)), createWriteStream(path), { signal: stop });
      } catch (error) {
        throw isMissing(error) ? new ArchiveFault(`the archive has no ${name}`, { cause: error }) : error;
      }
    },
    getText: async (name) => {
      try {
        return await readFile(join(folder, name), "utf8");
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
  };
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

// The lines leave the ledger when they are said to be here: a page cache that is lost must not take them along.
async function syncToDisk(path: string): Promise<void> {
  await using file = await open(path, "r");
  await file.sync();
}
