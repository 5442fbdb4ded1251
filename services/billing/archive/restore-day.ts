import { faultPoint } from "#shared/process/fault-point.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { readArchivedDay } from "../store/archive-days.ts";
import { beginRestore, endRestore, insertRestored, readArchiveLines } from "../store/archive-lines.ts";
import { readLines } from "./copy-lines.ts";
import { isOf, manifestOf, readArchiveContent, readManifest } from "./manifest.ts";
import { ArchiveFault, type ArchivePlace } from "./place.ts";
import { createLinesTally } from "./tally.ts";

/**
 * Reads an archived day back and makes it a part of the ledger again, when its manifest is the one that was signed, its
 * files are those of the manifest, and the lines in the database add up to what left. `told` hears of lines as they
 * come.
 */
export async function restoreDay(
  { pool, place }: { pool: Pool; place: ArchivePlace },
  day: string,
  { stop, told }: { stop: AbortSignal; told: (lines: number) => void },
): Promise<void> {
  const archived = await readArchivedDay(pool, day);
  if (!archived) throw new ArchiveFault(`${day} was not moved out of the ledger`);
  if (archived.isRestored) throw new ArchiveFault(`${day} is in the ledger`);
  const text = await place.getText(manifestOf(day), stop);
  if (text === undefined) throw new ArchiveFault(`the archive has no manifest of ${day}`);
  if (!readManifest(text).content.equals(archived.content)) {
    throw new ArchiveFault(`the manifest of ${day} is not the one that was signed`);
  }
  const content = readArchiveContent(archived.content, day);
  await beginRestore(pool, day);
  const read = await readLines(place, content, stop, async (rows) => {
    await insertRestored(pool, day, rows);
    told(rows.length);
  });
  faultPoint("billing: day read back, not in the ledger");
  const tally = createLinesTally();
  for await (const rows of readArchiveLines(pool, day, "restoring")) tally.add(rows);
  if (!isOf(content, read) || !isOf(content, tally.end())) {
    throw new ArchiveFault(`the lines of ${day} are not those that were signed`);
  }
  await endRestore(pool, day);
}
