import { generateKeyPairSync } from "node:crypto";
import { v7 } from "uuid";
import { dayMs } from "#shared/process/clock.ts";
import { query } from "#shared/testing/postgres.ts";
import type { Databases } from "#shared/testing/share.ts";
import { dayOfMs } from "../records/check.ts";
import { createLedgerDays, type LedgerDays } from "../store/days.ts";
import { closeLedgerDay, findClosableDays } from "../store/reconcile-closing.ts";
import { makeSums } from "../store/make-sums.ts";
import { startApp } from "./app.ts";
import type { EventFields } from "./events.ts";

/** The key that tests sign with. */
export const { privateKey, publicKey } = generateKeyPairSync("ed25519");

/** Days for which tests keep lines. */
export const keepDays = 100;

/** A day that is older, at noon. */
export const oldMs = (Math.floor(Date.now() / dayMs) - keepDays - 2) * dayMs + dayMs / 2;
export const oldDay = dayOfMs(oldMs);

/** Billing's calls as of noon of a day that is a hundred days ago, until `time.nowMs` is set. */
export async function startOldApp(postgres: Databases, given: Parameters<typeof startApp>[1] = {}) {
  const time = { nowMs: oldMs };
  // The database makes partitions for days near its own clock only.
  const own = { isClosed: false };
  const days: LedgerDays = {
    ensure: async (asked) => (own.isClosed ? await createLedgerDays(pool).ensure(asked) : new Set<string>()),
    forget: () => undefined,
  };
  const app = await startApp(postgres, { clock: { nowMs: () => time.nowMs }, days, ...given });
  const { ownerUrl, pool } = app.ledger;
  await makePartition(ownerUrl, oldDay);
  await makePartition(ownerUrl, dayOfMs(Date.now()));
  const book = (...events: EventFields[]) =>
    app.book(...events.map((event) => ({ rid: v7({ msecs: oldMs }), ...event })));
  /** Everything is on the stream and summed up, and the old day closed in every way. */
  const close = async (): Promise<void> => {
    await makeSums(pool, Date.now());
    for (const day of await findClosableDays(pool, dayOfMs(Date.now() - 62 * dayMs))) await closeLedgerDay(pool, day);
    await query(
      ownerUrl,
      `DELETE FROM billing.funds_outbox;
       INSERT INTO billing.day_close (day, content, signature, public_key) VALUES (current_date - 1, '', '', '')`,
    );
    time.nowMs = Date.now();
    own.isClosed = true;
  };
  return { ...app, time, book, close };
}

async function makePartition(ownerUrl: string, day: string): Promise<void> {
  const name = `billing.ledger_line_${day.replaceAll("-", "_")}`;
  await query(
    ownerUrl,
    `CREATE TABLE ${name} (LIKE billing.ledger_line INCLUDING ALL);
     ALTER TABLE billing.ledger_line ATTACH PARTITION ${name} FOR VALUES FROM ('${day}') TO ('${day}'::date + 1)`,
  );
}
