import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { InvalidArgumentError } from "commander";
import { formatUsd, maxAccountNanos, parseUsd } from "#shared/money/money.ts";

// Readers of what is typed. Each throws commander's InvalidArgumentError, which names the argument and ends with 1.

/** An amount in USD, of either sign, at most what an account may hold. */
export function readUsd(text: string): bigint {
  const nanos = readPlainUsd(text);
  const absolute = nanos < 0n ? -nanos : nanos;
  if (absolute > maxAccountNanos) throw new InvalidArgumentError(`The most is ${formatUsd(maxAccountNanos)} USD.`);
  return nanos;
}

function readPlainUsd(text: string): bigint {
  try {
    return parseUsd(text);
  } catch {
    throw new InvalidArgumentError("It must be an amount in USD with at most nine decimals, such as 12.50.");
  }
}

/** An amount in USD of more than 0. */
export function readPositiveUsd(text: string): bigint {
  const nanos = readUsd(text);
  if (nanos <= 0n) throw new InvalidArgumentError("It must be more than 0.");
  return nanos;
}

/** A whole number of 0 or more. */
export function readCount(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

const instantPattern = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** A day (UTC) as YYYY-MM-DD. */
export function readDay(text: string): string {
  if (text.length !== 10) throw new InvalidArgumentError("It must be a day like 2027-01-31.");
  readInstant(text);
  return text;
}

/** A day (its start, UTC) or an instant with its offset from UTC, in ISO 8601. */
export function readInstant(text: string): Timestamp {
  const day = instantPattern.exec(text)?.[1];
  const date = new Date(text);
  // Date takes 30 February for 1 March.
  const isOfCalendar = day !== undefined && new Date(`${day}T00:00Z`).toJSON()?.startsWith(day);
  if (!isOfCalendar || Number.isNaN(date.getTime())) {
    throw new InvalidArgumentError("It must be a day or an instant like 2027-01-31 or 2027-01-31T12:00:00Z.");
  }
  return timestampFromDate(date);
}

/** Names separated by commas. */
export function readNames(text: string): string[] {
  const names = text.split(",").map((name) => name.trim());
  if (names.includes("")) throw new InvalidArgumentError("It must be names separated by commas.");
  return names;
}

/** Takes one word for "take it away" beside whatever `read` reads; undefined stands for that word. */
export function orWord<T>(word: string, read: (text: string) => T): (text: string) => T | undefined {
  return (text) => (text === word ? undefined : read(text));
}
