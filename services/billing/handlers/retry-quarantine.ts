import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  RetriedRecordSchema,
  RetryQuarantineRequest,
  RetryQuarantineResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { bookBatch, type BookingDeps } from "../intake/book.ts";
import { badRequest } from "./check-request.ts";
import { decide } from "../records/plan.ts";
import { readEvent, readMessage, type ReadEvent, type ReadMessage } from "../records/read-event.ts";
import { markKeysUnpushed } from "../store/funds.ts";
import { readByHandSums } from "../store/lines.ts";
import { readBookedCalls } from "../store/post.ts";
import { markQuarantineBooked, readQuarantined, type QuarantineRow } from "../store/quarantine.ts";
import type { BalancePusher } from "../intake/push-balances.ts";

/** What trying again needs. */
export type RetryDeps = BookingDeps & { pusher: BalancePusher };

const maxRecords = 100;

/**
 * Reads quarantined records again and books what may be booked by now, one after the other, each in the way of the
 * consumer. What the ledger has counts as booked. What was settled by hand is left alone: it would be charged twice. A
 * number that is not in quarantine is told as such, and does not keep the others back.
 */
export async function retryQuarantine(
  deps: RetryDeps,
  { quarantineIds }: RetryQuarantineRequest,
): Promise<MessageInitShape<typeof RetryQuarantineResponseSchema>> {
  if (quarantineIds.length === 0 || quarantineIds.length > maxRecords) {
    throw badRequest(`quarantine_ids must be 1 to ${maxRecords}`);
  }
  const records: MessageInitShape<typeof RetriedRecordSchema>[] = [];
  for (const quarantineId of quarantineIds) {
    const row = await readQuarantined(deps.pool, quarantineId);
    const reason = row ? await retry(deps, row) : "no record has this number";
    records.push({ quarantineId, isBooked: reason === undefined, reason: reason ?? "" });
  }
  return { records };
}

/** Books a record; why it cannot be, or undefined when the ledger has all of it. */
async function retry(deps: RetryDeps, row: QuarantineRow): Promise<string | undefined> {
  const { pool, pusher, clock, log } = deps;
  const message = readAgain(row, clock.nowMs());
  const missing = await findMissing(deps, message.events);
  const settled = await findSettledByHand(deps, row, missing);
  if (settled !== undefined) return settled;
  const { rejects, ...posting } = await bookBatch(deps, message);
  if (!(await pusher.push(posting))) {
    await markKeysUnpushed(
      pool,
      posting.keys.map(({ keyId }) => keyId),
    );
  }
  const [reject] = rejects;
  if (reject) return `${reject.reason}: ${reject.detail}`;
  await markQuarantineBooked(pool, row.quarantineId);
  log.info({ quarantineId: `${row.quarantineId}`, lines: missing.length }, "quarantined record booked");
  return undefined;
}

// Unreadable bytes are an event that was damaged within its message, or a whole message: a message does not read as an
// event that may be booked.
function readAgain({ reason, payload }: QuarantineRow, nowMs: number): ReadMessage {
  const read = readEvent(payload, undefined, nowMs);
  if (!("reason" in read)) return { events: [read], rejects: [] };
  const message = reason.startsWith("unreadable") ? readMessage(payload, undefined, nowMs) : undefined;
  return message && message.events.length > 0 ? message : { events: [], rejects: [read] };
}

async function findMissing({ pool }: RetryDeps, events: readonly ReadEvent[]): Promise<ReadEvent[]> {
  const calls = await readBookedCalls(pool, events);
  return events.filter((read) => typeof decide(read, calls.get(read.event.rid)) === "object");
}

// By the rules of isOpen and of the outbox.
async function findSettledByHand(
  { pool }: RetryDeps,
  { quarantineId, isOpen }: QuarantineRow,
  missing: readonly ReadEvent[],
): Promise<string | undefined> {
  if (missing.length === 0) return undefined;
  const [rid] = (
    await readByHandSums(
      pool,
      missing.map(({ event }) => event.rid),
    )
  ).keys();
  if (rid !== undefined) return `settled by hand: a correction names the call ${rid}`;
  return isOpen ? undefined : `settled by hand: a line names the call, or a correction "quarantine ${quarantineId}"`;
}
