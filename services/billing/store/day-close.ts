import pg from "pg";
import {
  closeColumns,
  createCloseTally,
  encodeClose,
  hashOfContent,
  type CloseContent,
} from "#shared/money/day-close.ts";
import type { KeptReport } from "#shared/money/report.ts";
import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";
import { unitColumns } from "./columns.ts";
import { findDetachedDay } from "./partitions.ts";

/** A day that was closed. */
export type KeptClose = { day: string } & KeptReport;

type CloseRow = { day: string; content: Buffer; signature: Buffer; publicKey: string };

const readClose = `SELECT day, content, signature, public_key AS "publicKey" FROM billing.day_close`;

/** The close of a day. */
export async function readDayClose(db: Queryable, day: string): Promise<KeptClose | undefined> {
  const { rows } = await db.query<CloseRow>(`${readClose} WHERE day = $1`, [day]);
  return rows[0];
}

/** The newest close. */
export async function readLastClose(db: Queryable): Promise<KeptClose | undefined> {
  const { rows } = await db.query<CloseRow>(`${readClose} ORDER BY day DESC LIMIT 1`);
  return rows[0];
}

/** Lines of a closed day as text, in the order of accounts, of the accounts after `after`. */
export async function readCloseLines(
  db: Queryable,
  { day, after, limit }: { day: string; after: string; limit: number },
): Promise<{ accountId: string; line: string }[]> {
  const { rows } = await db.query<{ accountId: string; line: string }>(
    `SELECT account_id AS "accountId", line FROM billing.day_close_line
     WHERE day = $1 AND account_id > $2 COLLATE "C" ORDER BY account_id LIMIT $3`,
    [day, after, limit],
  );
  return rows;
}

/** For so long the lines of a closed day are listed. A day longer they are there, for whoever has begun to read. */
export const keptCloseDays = 400;

const forgottenAtOnce = 20_000;
const mostPages = 200;

/** Forgets the lines of days that were closed longer ago, but for the last closed one; returns how many. */
export async function forgetCloseLines(db: Queryable): Promise<bigint> {
  let forgotten = 0n;
  for (let pages = 0; pages < mostPages; pages += 1) {
    const { rows } = await db.query<{ lines: bigint }>("SELECT billing.forget_close_lines($1) AS lines", [
      forgottenAtOnce,
    ]);
    const lines = rows[0]?.lines ?? 0n;
    forgotten += lines;
    if (lines < forgottenAtOnce) break;
  }
  return forgotten;
}

/** A day to close: its lines are those with ids from the first up to the second, on days from `firstDay` on. */
export type DayToClose = {
  day: string;
  madeAtMs: number;
  lineIds: { from: string; until: string };
  firstDay: string;
  previous: KeptClose | undefined;
  sign: (content: Buffer) => { content: Buffer; signature: Buffer; publicKey: string };
};

/** `busy`: another process is at it, or was first. */
export type Closing = "closed" | "busy" | { detachedDay: string };

// Sums over a day of all accounts take longer than any other statement may.
const longestMs = 600_000;
const linesPerPage = 5_000;

/**
 * Closes a day in one transaction, as of one moment: writes a line for each account that had bookings or has a balance,
 * adds them up again, signs the totals.
 */
export async function closeDay(pool: Pool, closing: DayToClose): Promise<Closing> {
  try {
    return await inTransaction(pool, async (db) => {
      await db.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
      await db.query(`SET LOCAL statement_timeout = ${longestMs}`);
      const { rows } = await db.query<{ isOurs: boolean }>(
        `SELECT pg_try_advisory_xact_lock(hashtext('billing.day_close')) AS "isOurs"`,
      );
      if (!rows[0]?.isOurs) return "busy";
      const detachedDay = await findDetachedDay(db, closing.firstDay, "9999-12-31");
      if (detachedDay !== undefined) return { detachedDay };
      await insertLines(db, closing);
      const { content, signature, publicKey } = closing.sign(encodeClose(await contentOf(db, closing)));
      await db.query(
        "INSERT INTO billing.day_close (day, made_at, content, signature, public_key) VALUES ($1, $2, $3, $4, $5)",
        [closing.day, new Date(closing.madeAtMs), content, signature, publicKey],
      );
      return "closed";
    });
  } catch (error) {
    // Another process has closed it between this one's look and its transaction.
    if (error instanceof pg.DatabaseError && error.code === "23505") return "busy";
    throw error;
  }
}

const within = (kinds: string): string => `FILTER (WHERE l.line_id < $3 AND l.kind ${kinds})`;
const sum = (kinds: string): string => `coalesce(sum(l.amount_nanos) ${within(kinds)}, 0)`;

// An adjustment stands for the whole call, and its provisional line, which is on the same day, has told a part.
const upstreamCost = `CASE l.kind WHEN 3 THEN l.upstream_cost_nanos - coalesce((
  SELECT p.upstream_cost_nanos FROM billing.ledger_line AS p WHERE p.rid = l.rid AND p.day = l.day AND p.kind = 2
), 0) ELSE l.upstream_cost_nanos END`;

// Closing balances are counted back from those of now: older lines need no reading.
const lines = `
  WITH booked AS (
    SELECT l.account_id, coalesce(sum(l.amount_nanos) FILTER (WHERE l.line_id >= $3), 0) AS later,
      count(*) FILTER (WHERE l.line_id < $3) AS lines,
      ${sum("<= 3")} AS charges, ${sum("= 4")} AS credits, ${sum("= 6")} AS refunds, ${sum("= 5")} AS corrections,
      count(*) ${within("< 3")} AS calls,
      coalesce(sum(${upstreamCost}) ${within("<= 3")}, 0) AS upstream_cost,
      count(*) FILTER (WHERE l.line_id < $3 AND l.kind < 3 AND l.upstream_cost_nanos IS NULL) AS unpriced,
      concat_ws(',', ${unitColumns.map((name) => `coalesce(sum(l.${name}) ${within("<= 3")}, 0)`).join(", ")}) AS units
    FROM billing.ledger_line AS l WHERE l.line_id >= $2 AND l.day >= $4 GROUP BY l.account_id
  ), balances AS (
    SELECT a.account_id, b.*, a.balance_nanos - coalesce(b.later, 0) AS closing,
      a.balance_nanos - coalesce(b.later + b.charges + b.credits + b.refunds + b.corrections, 0) AS opening
    FROM billing.account AS a LEFT JOIN booked AS b (owner, later, lines, charges, credits, refunds, corrections, calls,
      upstream_cost, unpriced, units) ON b.owner = a.account_id
  )
  INSERT INTO billing.day_close_line (day, account_id, opening_nanos, closing_nanos, line)
  SELECT $1, account_id, opening, closing, concat_ws(',', $1::date::text, account_id, opening, coalesce(charges, 0),
    coalesce(credits, 0), coalesce(refunds, 0), coalesce(corrections, 0), closing, coalesce(calls, 0),
    coalesce(upstream_cost, 0), coalesce(unpriced, 0), coalesce(units, $5))
  FROM balances WHERE lines > 0 OR closing <> 0`;

async function insertLines(db: Queryable, { day, lineIds, firstDay }: DayToClose): Promise<void> {
  const none = unitColumns.map(() => "0").join(",");
  const values = [day, lineIds.from, lineIds.until, firstDay, none];
  const question = { text: lines, values, query_timeout: longestMs + 5_000 };
  await db.query(question);
}

async function contentOf(db: Queryable, { day, madeAtMs, previous }: DayToClose): Promise<CloseContent> {
  const tally = createCloseTally(day);
  for (let after = ""; ;) {
    const page = await readCloseLines(db, { day, after, limit: linesPerPage });
    for (const { line } of page) tally.add(line);
    after = page.at(-1)?.accountId ?? after;
    if (page.length < linesPerPage) break;
  }
  return {
    close: "day.v1",
    made_at: new Date(madeAtMs).toISOString(),
    ...tally.end(),
    previous_day: previous?.day ?? "",
    previous_content_sha256: previous ? hashOfContent(previous.content) : "",
    breaks: previous ? await countBreaks(db, previous.day, day) : 0,
  };
}

// An account that is in one of the two files only had 0 where it is missing.
async function countBreaks(db: Queryable, before: string, day: string): Promise<number> {
  const { rows } = await db.query<{ breaks: number }>(
    `SELECT count(*)::int AS breaks
     FROM (SELECT account_id, closing_nanos FROM billing.day_close_line WHERE day = $1) AS before
     FULL JOIN (SELECT account_id, opening_nanos FROM billing.day_close_line WHERE day = $2) AS now USING (account_id)
     WHERE coalesce(closing_nanos, 0) <> coalesce(opening_nanos, 0)`,
    [before, day],
  );
  return rows[0]?.breaks ?? 0;
}

/** The first line of each file. */
export const closeHeader = closeColumns.join(",");
