import { ServiceError } from "#shared/errors.ts";
import { ridTimeMs } from "#shared/rid.ts";
import { isId } from "./check.ts";

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
  if (atMs === undefined) throw badRequest(`${name} must be a UUIDv7 in lower case`);
  return atMs;
}

const maxLimit = 1_000;
const defaultLimit = 100;

/** Checks how many entries a page shall have; 0 is the default of 100. */
export function requireLimit(limit: number): number {
  if (limit < 0 || limit > maxLimit) throw badRequest(`limit must be 0 to ${maxLimit}`);
  return limit || defaultLimit;
}
