import { dayMs } from "#shared/process/clock.ts";
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { ServiceError } from "#shared/process/errors.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { isId } from "../records/check.ts";

/** A request that cannot be served as it is; `words` are for whoever sent it. */
export function badRequest(words: string): ServiceError {
  return new ServiceError("invalid_argument", words);
}

/** Checks the id of an account or key; `name` is the field. */
export function requireId(name: string, value: string): string {
  if (!isId(value)) throw badRequest(`${name} must be 1 to 64 letters, digits, - or _`);
  return value;
}

/** Checks the length of a text, in characters as JavaScript counts them. */
export function requireText(name: string, value: string, { min, max }: { min: number; max: number }): string {
  if (value.length < min || value.length > max) throw badRequest(`${name} must have ${min} to ${max} characters`);
  // PostgreSQL cannot store it.
  if (value.includes("\0")) throw badRequest(`${name} must not contain NUL`);
  return value;
}

/** Checks a rid, or another UUIDv7 of ours, and tells its time in milliseconds since 1970. */
export function requireUuidTimeMs(name: string, value: string): number {
  const atMs = ridTimeMs(value);
  if (atMs === undefined || atMs > lastMs) throw badRequest(`${name} must be a UUIDv7 in lower case`);
  return atMs;
}

const maxLimit = 1_000;
const defaultLimit = 100;

/** Checks how many entries a page shall have; 0 is the default of 100. */
export function requireLimit(limit: number): number {
  if (limit < 0 || limit > maxLimit) throw badRequest(`limit must be 0 to ${maxLimit}`);
  return limit || defaultLimit;
}

export const maxDays = 400;

/** Checks a span of time, in milliseconds since 1970: at most 400 days, the end not included. */
export function requireSpan({ from, until }: { from?: Timestamp | undefined; until?: Timestamp | undefined }) {
  const fromMs = requireTimeMs("from", from);
  const untilMs = requireTimeMs("until", until);
  if (untilMs <= fromMs) throw badRequest("until must be after from");
  if (untilMs - fromMs > maxDays * dayMs) throw badRequest(`from and until may be at most ${maxDays} days apart`);
  return { fromMs, untilMs };
}

// Years that ISO dates write with four digits.
const lastMs = Date.UTC(9999, 0, 1);

/** Checks an instant, in milliseconds since 1970; `name` is the field. */
export function requireTimeMs(name: string, time: Timestamp | undefined): number {
  if (!time) throw badRequest(`${name} is missing`);
  // The ids that hold times count whole milliseconds.
  const atMs = Math.ceil(timestampMs(time));
  if (atMs < 0 || atMs > lastMs) throw badRequest(`${name} is out of range`);
  return atMs;
}

/** Checks a span of days (UTC, YYYY-MM-DD), the last not included. */
export function requireDays({ fromDay, untilDay }: { fromDay: string; untilDay: string }) {
  requireDay("from_day", fromDay);
  requireDay("until_day", untilDay);
  if (untilDay <= fromDay) throw badRequest("until_day must be after from_day");
}

/** The same, of at most 400 days. */
export function requireFewDays(span: { fromDay: string; untilDay: string }) {
  requireDays(span);
  const isTooLong = Date.parse(span.untilDay) - Date.parse(span.fromDay) > maxDays * dayMs;
  if (isTooLong) throw badRequest(`from_day and until_day may be at most ${maxDays} days apart`);
}

/** Checks a day (UTC) as YYYY-MM-DD; `name` is the field. */
export function requireDay(name: string, day: string): string {
  // Date takes 30 February for 1 March.
  const isOfCalendar = /^\d{4}-\d{2}-\d{2}$/.test(day) && new Date(`${day}T00:00Z`).toJSON()?.startsWith(day);
  if (!isOfCalendar) throw badRequest(`${name} must be a day like 2027-01-31`);
  return day;
}

/** For what needs the lines of a day whose partition was detached: it would be wrong without them. */
export function detached(day: string): ServiceError {
  return new ServiceError(
    "failed_precondition",
    `the lines of ${day} are not in the ledger any more: read them back with npm run admin -- restore-day ${day}`,
  );
}
