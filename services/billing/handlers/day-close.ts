import type { MessageInitShape } from "@bufbuild/protobuf";
import type { KeyObject } from "node:crypto";
import type {
  CloseDayRequest,
  CloseDayResponseSchema,
  ListCloseLinesRequest,
  ListCloseLinesResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { dayMs, type Clock } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import { readCloseContent } from "#shared/money/day-close.ts";
import { signContent } from "#shared/money/report.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { dayOfMs, oldestDays } from "../records/check.ts";
import { firstUuidAt } from "../records/line-id.ts";
import {
  closeDay,
  closeHeader,
  keptCloseDays,
  readCloseLines,
  readDayClose,
  readLastClose,
  type KeptClose,
} from "../store/day-close.ts";
import { detached, requireDay } from "./check-request.ts";
import { settlingMs } from "./statement.ts";

/** What closing a day needs. Without a signing key no day is closed. */
export type CloseDeps = { pool: Pool; clock: Clock; signingKey: KeyObject | undefined; log: Logger };

const startOf = (day: string): number => Date.parse(`${day}T00:00:00Z`);
const dayAfter = (day: string): string => dayOfMs(startOf(day) + dayMs);
const isFinal = (day: string, { clock }: CloseDeps): boolean => startOf(day) + dayMs + settlingMs <= clock.nowMs();

/**
 * Answers CloseDay: the close of the day that is kept, or one that is made now. `failed_precondition` when the day is
 * not final yet, another day comes first, or there is no key to sign with; `unavailable` while another process does.
 */
export async function answerCloseDay(
  deps: CloseDeps,
  { day }: CloseDayRequest,
): Promise<MessageInitShape<typeof CloseDayResponseSchema>> {
  requireDay("day", day);
  const kept = await readDayClose(deps.pool, day);
  return { close: toMessage(kept ?? (await close(deps, day, await readLastClose(deps.pool)))) };
}

const refused = (words: string): ServiceError => new ServiceError("failed_precondition", words);

/** Closes a day that follows the last closed one. */
async function close(deps: CloseDeps, day: string, previous: KeptClose | undefined): Promise<KeptClose> {
  const { pool, clock, signingKey, log } = deps;
  if (!signingKey) throw refused("no day is closed without a key: set RECONCILE_SIGNING_KEY_FILE");
  if (!isFinal(day, deps)) throw refused(`${day} is not final: that is an hour after its end`);
  if (previous && day !== dayAfter(previous.day)) {
    throw refused(`the day to close is ${dayAfter(previous.day)}: each file begins where the one before ends`);
  }
  const fromMs = startOf(day);
  const state = await closeDay(pool, {
    day,
    madeAtMs: clock.nowMs(),
    lineIds: { from: firstUuidAt(fromMs), until: firstUuidAt(fromMs + dayMs) },
    // Of a call that was booked on the day the rid may be this old; one day for both clocks.
    firstDay: dayOfMs(fromMs - (oldestDays + 1) * dayMs),
    previous,
    sign: (content) => {
      const { signature, publicKey } = signContent(content, signingKey);
      if (!signature || publicKey === undefined) throw new Error("signed by nobody");
      return { content, signature, publicKey };
    },
  });
  if (typeof state === "object") throw detached(state.detachedDay);
  const kept = await readDayClose(pool, day);
  if (!kept) throw new ServiceError("unavailable", "another process closes the day; ask again later");
  if (state === "closed") log.info({ day }, "day closed");
  return kept;
}

/**
 * What is done every few minutes: closes the day after the last closed one once it is final, the first time yesterday.
 * One day at a time: after an outage they follow each other. `closedUntil` gets the start of the day to be closed next,
 * in Unix seconds.
 */
export function createClosePass(deps: CloseDeps, closedUntil: { set: (seconds: number) => void }): () => Promise<void> {
  return async () => {
    if (!deps.signingKey) return;
    const last = await readLastClose(deps.pool);
    const day = last ? dayAfter(last.day) : dayOfMs(deps.clock.nowMs() - dayMs);
    closedUntil.set(startOf(day) / 1_000);
    if (!isFinal(day, deps)) return;
    await close(deps, day, last);
    closedUntil.set(startOf(dayAfter(day)) / 1_000);
  };
}

function toMessage({ day, content, signature, publicKey }: KeptClose) {
  return { day, content, ...(signature && { signature }), ...(publicKey !== undefined && { publicKey }) };
}

const linesPerPage = 1_000;

/**
 * Answers ListCloseLines: the header, then the lines of a closed day, a page per response. `failed_precondition` when
 * it was closed longer ago than its lines are kept.
 */
export async function* listCloseLines(
  { pool, clock }: Pick<CloseDeps, "pool" | "clock">,
  { day }: ListCloseLinesRequest,
): AsyncGenerator<MessageInitShape<typeof ListCloseLinesResponseSchema>> {
  const kept = await readDayClose(pool, requireDay("day", day));
  if (!kept) throw new ServiceError("not_found", `${day} is not closed`);
  if (Date.parse(readCloseContent(kept.content).made_at) < clock.nowMs() - keptCloseDays * dayMs) {
    throw refused(`the lines of ${day} were kept for ${keptCloseDays} days after it was closed`);
  }
  yield { lines: [closeHeader] };
  for (let after = ""; ;) {
    const page = await readCloseLines(pool, { day, after, limit: linesPerPage });
    if (page.length > 0) yield { lines: page.map(({ line }) => line) };
    after = page.at(-1)?.accountId ?? after;
    if (page.length < linesPerPage) break;
  }
}
