import { timestampDate, timestampFromDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { ServiceError } from "#shared/process/errors.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { networkOf } from "#shared/net/network.ts";

// Checks of what unary callers send. Each throws ServiceError `invalid_argument` that names the field and the rule.

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
const maxModels = 200;
const maxModelLength = 256;
const maxPerMinute = 1_000_000;
const maxConcurrency = 100_000;

export function refuse(problem: string): never {
  throw new ServiceError("invalid_argument", problem);
}

export function checkId(field: string, id: string): string {
  return idPattern.test(id) ? id : refuse(`${field} must be 1 to 64 letters, digits, - or _`);
}

const maxIds = 1_000;

export function checkIds(field: string, ids: string[]): string[] {
  if (ids.length > maxIds) refuse(`${field} may name at most ${maxIds}`);
  return ids.map((id) => checkId(field, id));
}

export function checkName(field: string, name: string, minLength: 0 | 1): string {
  const isFit = name.length >= minLength && [...name].length <= 200 && !/[\p{Cc}]/u.test(name);
  return isFit ? name : refuse(`${field} must be ${minLength} to 200 characters, none of them a control character`);
}

/** Refuses without the value: it may be a whole secret, pasted where its beginning was asked for. */
export function checkSecretPrefix(field: string, prefix: string): string {
  const isFit = /^[A-Za-z0-9_-]{6,10}$/.test(prefix);
  return isFit ? prefix : refuse(`${field} must be the first 6 to 10 characters of a secret`);
}

export function checkAmount(field: string, nanos: bigint): bigint {
  return nanos >= 0n && nanos <= maxAccountNanos ? nanos : refuse(`${field} must be 0 to ${maxAccountNanos} nano-USD`);
}

export function checkRate(field: string, perMinute: number): number {
  const isFit = perMinute >= 0 && perMinute <= maxPerMinute;
  return isFit ? perMinute : refuse(`${field} must be 0 to ${maxPerMinute}`);
}

export function checkConcurrency(field: string, calls: number): number {
  const isFit = calls >= 0 && calls <= maxConcurrency;
  return isFit ? calls : refuse(`${field} must be 0 to ${maxConcurrency}`);
}

/** Resolves the limit of a list: 0 means the default. */
export function checkLimit(field: string, limit: number, limits: { default: number; max: number }): number {
  if (limit === 0) return limits.default;
  return limit > 0 && limit <= limits.max ? limit : refuse(`${field} must be 1 to ${limits.max}`);
}

export function checkModels(field: string, models: string[]): string[] {
  const isModel = (model: string): boolean =>
    model.length > 0 && model.length <= maxModelLength && !/[\p{Cc}]/u.test(model);
  if (models.length > maxModels) refuse(`${field} may name at most ${maxModels} models`);
  if (!models.every(isModel)) refuse(`${field} must hold names of 1 to ${maxModelLength} characters`);
  return [...new Set(models)];
}

const maxAddresses = 64;

/** Addresses and networks, each in its shortest form. */
export function checkAddresses(field: string, addresses: string[]): string[] {
  if (addresses.length > maxAddresses) refuse(`${field} may name at most ${maxAddresses} addresses and networks`);
  const wrong = (text: string): never =>
    refuse(`${field} must hold IPv4 and IPv6 addresses and networks such as 192.0.2.0/24: ${text.slice(0, 64)}`);
  return [...new Set(addresses.map((text) => networkOf(text) ?? wrong(text)))];
}

const maxTags = 10;
const tagPattern = /^[\p{L}\p{N}][\p{L}\p{N}._:/@+=-]{0,63}$/u;

/** Words and pairs such as team=search, by which an owner sorts keys; in the order given. */
export function checkTags(field: string, tags: string[]): string[] {
  if (tags.length > maxTags) refuse(`${field} may name at most ${maxTags}`);
  if (!tags.every((tag) => tagPattern.test(tag)))
    refuse(`${field} must hold words of 1 to 64 letters, digits and . _ : / @ + = - that begin with a letter or digit`);
  return [...new Set(tags)];
}

// What PostgreSQL and JavaScript both can write down.
const latestMs = Date.UTC(9999, 11, 31);

export function checkInstant(field: string, instant: Timestamp): Date {
  const date = timestampDate(instant);
  const isFit = date.getTime() >= 0 && date.getTime() <= latestMs;
  return isFit ? date : refuse(`${field} must lie between the years 1970 and 9999`);
}

export const toTimestamp = timestampFromDate;
