import { dayMs } from "#shared/process/clock.ts";
import { dayOfMs } from "../records/check.ts";
import { type DueDay, findDueDays, findHindrance, forgetRestores } from "../store/archive-days.ts";
import { findWrongCalls } from "../store/reconcile-books.ts";
import { alone } from "../store/reconcile-report.ts";
import { findUnequalSums } from "../store/reconcile-sums.ts";
import { archiveDay, type ArchiveDeps } from "./archive-day.ts";

/**
 * What is done every few minutes: moves the days that are older than `keepDays` out of the ledger, the oldest first.
 * One process does it. A day that must stay keeps all younger ones, and is told. `overdue` gets the number of days that
 * ought to have left.
 */
export function createArchivePass(
  deps: ArchiveDeps & { keepDays: number },
  { overdue, stop }: { overdue: { set: (days: number) => void }; stop: AbortSignal },
): () => Promise<void> {
  const { pool, clock, keepDays } = deps;
  const findDue = () => findDueDays(pool, dayOfMs(clock.nowMs() - keepDays * dayMs));
  return async () => {
    overdue.set((await findDue()).length);
    await alone(pool, "billing.archive", async () => {
      await forgetRestores(pool);
      for (const due of await findDue()) {
        if (stop.aborted) return;
        const { day } = due;
        const reason = await whyNotFinal(deps, due);
        if (reason !== undefined) {
          deps.log.error({ day, reason }, "ledger day cannot be archived");
          return;
        }
        await archiveDay(deps, day, stop);
        overdue.set((await findDue()).length);
      }
    });
  };
}

/** Held against its sums and rules once more: nobody will look at these lines again. */
async function whyNotFinal(
  { pool, clock }: ArchiveDeps,
  { day, isClosed, isArchived }: DueDay,
): Promise<string | undefined> {
  if (isArchived) return undefined;
  if (!isClosed) return "it is not closed";
  const hindrance = await findHindrance(pool, day);
  if (hindrance !== undefined) return hindrance;
  const [unequal] = await findUnequalSums(pool, day);
  if (unequal) return `${unequal.what}: kept ${unequal.kept || "nothing"}, lines give ${unequal.summed || "nothing"}`;
  const fromMs = Date.parse(`${day}T00:00:00Z`);
  const window = { day, fromMs, untilMs: fromMs + dayMs, nowMs: clock.nowMs() };
  // Lines on a wrong day were looked for when they were booked.
  const [wrong] = await findWrongCalls(pool, window, "9999-12-31");
  return wrong && `${wrong.rid} ${wrong.problem}`;
}
