import type { KeyObject } from "node:crypto";
import type { Clock } from "#shared/process/clock.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { leaveLedger, readArchivedDay, type ArchivedDay } from "../store/archive-days.ts";
import { hashAccountSums, readArchiveLines } from "../store/archive-lines.ts";
import { readLines, writeLines } from "./copy-lines.ts";
import {
  encodeManifest,
  isOf,
  manifestOf,
  readArchiveContent,
  readManifest,
  signDay,
  type ArchiveContent,
  type Manifest,
} from "./manifest.ts";
import { ArchiveFault, type ArchivePlace } from "./place.ts";
import { createLinesTally, type Totals } from "./tally.ts";

/** What moving days out of the ledger needs. */
export type ArchiveDeps = { pool: Pool; place: ArchivePlace; signingKey: KeyObject; clock: Clock; log: Logger };

/**
 * Moves a day out of the ledger: writes its lines to the archive, reads them back from there, signs what they are, and
 * drops them. Whatever dies meanwhile, the same again ends well: what is written is the same, and the lines go last.
 */
export async function archiveDay(deps: ArchiveDeps, day: string, stop: AbortSignal): Promise<void> {
  const { pool, place, log } = deps;
  const archived = await readArchivedDay(pool, day);
  if (archived) {
    // Read back a week ago: counted again when it leaves, and as signed as before.
    await leaveLedger(pool, archived);
    log.info({ day }, "ledger day that was read back has left again");
    return;
  }
  const found = await place.getText(manifestOf(day), stop);
  const manifest = found === undefined ? await writeDay(deps, day, stop) : await adopt(deps, day, found, stop);
  const content = readArchiveContent(manifest.content, day);
  faultPoint("billing: day archived, lines still in the ledger");
  await leaveLedger(pool, asArchived(manifest, content));
  log.info({ day, lines: content.lines, files: content.files.length }, "ledger day moved to the archive");
}

const asArchived = (manifest: Manifest, { day, lines, amount_nanos }: ArchiveContent): ArchivedDay => ({
  day,
  ...manifest,
  lines: BigInt(lines),
  amountNanos: BigInt(amount_nanos),
});

async function writeDay(deps: ArchiveDeps, day: string, stop: AbortSignal): Promise<Manifest> {
  const { pool, place, signingKey, clock } = deps;
  const { totals, files } = await writeLines(place, { day, pages: readArchiveLines(pool, day, "ledger") }, stop);
  faultPoint("billing: day's files written, nothing signed");
  await requireSame(pool, day, totals, await readLines(place, { files }, stop));
  const manifest = signDay({ day, madeAtMs: clock.nowMs(), totals, files }, signingKey);
  const text = encodeManifest(manifest);
  await place.putText(manifestOf(day), text, stop);
  if ((await place.getText(manifestOf(day), stop)) !== text)
    throw new ArchiveFault(`the manifest of ${day} is not kept`);
  return manifest;
}

async function requireSame(pool: Pool, day: string, written: Totals, read: Totals): Promise<void> {
  if (written.linesSha256 !== read.linesSha256)
    throw new ArchiveFault(`the lines of ${day} are not read back as written`);
  // PostgreSQL's own sums: the pages that were read may have left a line out.
  if (read.accountsSha256 !== (await hashAccountSums(pool, day))) {
    throw new ArchiveFault(`the sums of ${day} in the archive are not those of the ledger`);
  }
}

/**
 * Takes an archive that is there already: of a process that has died before the lines were dropped, or of a ledger that
 * was restored since. Throws when it is not of the lines that the ledger has: a person must say which are right.
 */
async function adopt({ pool, place }: ArchiveDeps, day: string, text: string, stop: AbortSignal): Promise<Manifest> {
  const manifest = readManifest(text);
  const content = readArchiveContent(manifest.content, day);
  const tally = createLinesTally();
  for await (const rows of readArchiveLines(pool, day, "ledger")) {
    stop.throwIfAborted();
    tally.add(rows);
  }
  const totals = tally.end();
  if (!isOf(content, totals)) throw new ArchiveFault(`the archive has other lines of ${day} than the ledger`);
  await requireSame(pool, day, totals, await readLines(place, content, stop));
  return manifest;
}
