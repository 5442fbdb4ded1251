import { fromBinary } from "@bufbuild/protobuf";
import { FundsBookedSchema, LineKind, type FundsBooked } from "#proto/billing/v1/billing_pb.ts";
import type { Clock } from "#shared/process/clock.ts";
import { formatUsd } from "#shared/money/money.ts";
import type { Logger } from "#shared/process/log.ts";
import { inTransaction, type Pool } from "#shared/stores/postgres.ts";
import { fundsStream } from "#shared/stores/usage-stream.ts";
import { dayOfMs } from "../records/check.ts";
import type { LedgerDays } from "../store/days.ts";
import { bookLocked, lockAccount, type ManualLine, type ManualResult } from "../store/manual.ts";
import { redeemByReference } from "../store/vouchers.ts";
import type { NatsLink } from "./nats.ts";
import { readStreamAgain } from "./read-stream.ts";

export type RebookDeps = { pool: Pool; nats: NatsLink; days: LedgerDays; clock: Clock; log: Logger };

/**
 * Books again the lines by hand that the stream holds and the ledger has lost, from this time on (milliseconds since
 * 1970): with their references, amounts and notes, at the time of now, because statements of the past do not change.
 * Returns how many. A refund whose call is not in the ledger is reported and left out.
 */
export async function rebookFunds(deps: RebookDeps, fromMs: number | undefined): Promise<number> {
  let rebooked = 0;
  const never = new AbortController().signal;
  for await (const { data } of readStreamAgain(deps.nats, { fromMs, untilMs: undefined }, never, fundsStream)) {
    const funds = readFunds(data);
    if (!funds) deps.log.error("a message on the stream of lines by hand cannot be read, and is left out");
    const line = funds && lineOf(funds, deps.clock.nowMs());
    if (!line) continue;
    await deps.days.ensure([line.day]);
    const result = await book(deps.pool, line);
    const said = { account: line.accountId, reference: line.reference, usd: formatUsd(line.amountNanos) };
    if (result.outcome === "booked") {
      rebooked += 1;
      deps.log.warn(said, "lost line by hand is booked again");
    } else if (result.outcome !== "booked-before") {
      const reason = "reason" in result ? result.reason : "its reference was used with other content";
      deps.log.error({ ...said, reason }, "lost line by hand cannot be booked again");
    }
  }
  return rebooked;
}

/**
 * What a message of the stream says; undefined where it cannot be read. Billing has not written that one, and nobody
 * shall keep a ledger from being healed by it: whoever publishes anywhere can have an answer of JetStream's put there.
 */
export function readFunds(data: Uint8Array): FundsBooked | undefined {
  try {
    return fromBinary(FundsBookedSchema, data);
  } catch {
    return undefined;
  }
}

function lineOf({ line, contentHash }: FundsBooked, bookedAtMs: number): ManualLine | undefined {
  if (!line) return undefined;
  const { kind, accountId, amountNanos, reference, note, rid } = line;
  if (!isByHand(kind)) return undefined;
  const asked = { kind, accountId, amountNanos, reference, note, rid: rid || undefined };
  return { ...asked, contentHash: Buffer.from(contentHash), bookedAtMs, day: dayOfMs(bookedAtMs) };
}

/** Whether it is a line that people book, and the stream of them holds. */
export const isByHand = (kind: LineKind): kind is ManualLine["kind"] =>
  kind === LineKind.CREDIT || kind === LineKind.CORRECTION || kind === LineKind.REFUND;

// The amount was decided when the line was first booked, by rules that a balance of today must not be judged by.
const book = (pool: Pool, line: ManualLine): Promise<ManualResult> =>
  inTransaction(pool, async (db) => {
    const account = await lockAccount(db, line.accountId);
    const result = await bookLocked(db, line, {
      account,
      decide: ({ charge }) =>
        line.kind === LineKind.REFUND && !charge
          ? { reason: "the ledger does not have its call" }
          : { amountNanos: line.amountNanos },
    });
    if (result.outcome === "booked") await redeemByReference(db, { ...line, lineId: result.line.lineId });
    return result;
  });
