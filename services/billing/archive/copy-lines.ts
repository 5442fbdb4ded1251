import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ArchiveRow } from "../store/archive-lines.ts";
import type { ArchiveContent, ArchivedFile } from "./manifest.ts";
import { createLinesFile, readLinesFile, type LinesFile } from "./parquet.ts";
import { ArchiveFault, hashOfFile, type ArchivePlace } from "./place.ts";
import { createLinesTally, type Totals } from "./tally.ts";

// On the disk of this machine is one file at a time.
const longestFile = 256 * 2 ** 20;

/** Runs `work` with a folder that is gone afterwards. */
async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "ledger-archive-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

type OpenFile = { name: string; file: LinesFile; lines: number };

/** Writes lines, which come in the order of accounts, into the files of a day. Tells what they add up to. */
export async function writeLines(
  place: ArchivePlace,
  { day, pages, fileBytes = longestFile }: { day: string; pages: AsyncIterable<ArchiveRow[]>; fileBytes?: number },
  stop: AbortSignal,
): Promise<{ totals: Totals; files: ArchivedFile[] }> {
  return await withFolder(async (folder) => {
    const path = join(folder, "lines.parquet");
    const tally = createLinesTally();
    const files: ArchivedFile[] = [];
    let open: OpenFile | undefined;
    const end = async ({ name, file, lines }: OpenFile): Promise<void> => {
      await file.end();
      files.push({ name, bytes: (await stat(path)).size, lines, sha256: await hashOfFile(path) });
      await place.putFile(name, path, stop);
    };
    for await (const rows of pages) {
      stop.throwIfAborted();
      open ??= { name: fileName(day, files.length + 1), file: createLinesFile(path), lines: 0 };
      tally.add(rows);
      await open.file.add(rows);
      open.lines += rows.length;
      if (open.file.bytes() < fileBytes) continue;
      await end(open);
      open = undefined;
    }
    if (open) await end(open);
    return { totals: tally.end(), files };
  });
}

const fileName = (day: string, number: number): string => `${day}/lines-${String(number).padStart(3, "0")}.parquet`;

/**
 * Reads the files of a day back, a group of rows at a time, and tells what they add up to. Throws when a file is not
 * the one that was signed.
 */
export async function readLines(
  place: ArchivePlace,
  { files }: Pick<ArchiveContent, "files">,
  stop: AbortSignal,
  take: (rows: ArchiveRow[]) => Promise<void> = () => Promise.resolve(),
): Promise<Totals> {
  return await withFolder(async (folder) => {
    const path = join(folder, "lines.parquet");
    const tally = createLinesTally();
    for (const { name, sha256 } of files) {
      await place.getFile(name, path, stop);
      if ((await hashOfFile(path)) !== sha256) throw new ArchiveFault(`${name} is not the file that was signed`);
      for await (const rows of readLinesFile(path)) {
        stop.throwIfAborted();
        tally.add(rows);
        await take(rows);
      }
    }
    return tally.end();
  });
}
