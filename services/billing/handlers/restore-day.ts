import type { MessageInitShape } from "@bufbuild/protobuf";
import type { RestoreDayRequest, RestoreDayResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { ArchiveFault, type ArchivePlace } from "../archive/place.ts";
import { restoreDay as readBack } from "../archive/restore-day.ts";
import { readArchivedDay } from "../store/archive-days.ts";
import { requireDay } from "./check-request.ts";

/** What reading days back needs; without an archive there is no `place`. */
export type RestoreDeps = { pool: Pool; place: ArchivePlace | undefined; log: Logger };

const toldEveryMs = 5_000;
let isRunning = false;

/**
 * Reads an archived day back into the ledger and tells every five seconds how far it is. One day at a time: each is as
 * much work as its lines were. `failed_precondition` when it is not in the archive as it was signed.
 */
export async function* restoreDay(
  deps: RestoreDeps,
  { day }: RestoreDayRequest,
  gone: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof RestoreDayResponseSchema>> {
  requireDay("day", day);
  const { pool, place, log } = deps;
  if (!place) throw new ServiceError("failed_precondition", "there is no archive: set LEDGER_ARCHIVE_URL");
  if (isRunning) throw new ServiceError("unavailable", "a day is being read back; ask again later");
  isRunning = true;
  try {
    const lines = (await readArchivedDay(pool, day))?.lines ?? 0n;
    let restored = 0;
    const told = (more: number): void => void (restored += more);
    const work = readBack({ pool, place }, day, { stop: gone, told }).then((): true => true);
    // Looked at below; until then it must not end the process.
    work.catch(() => undefined);
    while (!(await inTime(work))) yield { restoredLines: BigInt(restored), lines };
    log.info({ day, lines: String(lines) }, "ledger day read back from the archive");
    yield { restoredLines: lines, lines, isDone: true };
  } catch (error) {
    throw error instanceof ArchiveFault ? new ServiceError("failed_precondition", error.message) : error;
  } finally {
    isRunning = false;
  }
}

async function inTime(work: Promise<true>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(resolve, toldEveryMs, false);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
