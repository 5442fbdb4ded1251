import { randomUUID } from "node:crypto";

// Ids of the same millisecond count on, from a random place that leaves room above it.
const counterBits = 26;
const maxStart = 2 ** 24;

// How far the clock may go back without ids following it: corrections by NTP keep their order.
const maxStepBackMs = 1_000;

let timeMs = 0;
let time = "";
let counter = 0;

function setTime(nowMs: number): void {
  timeMs = nowMs;
  const hex = nowMs.toString(16).padStart(12, "0");
  time = `${hex.slice(0, 8)}-${hex.slice(8)}`;
}

/**
 * Makes the id of a call: a UUIDv7, so that its time can be read from it and ids sort in the order of their making, but
 * for a clock that was set back: ids of a wrong hour are refused by auth-quota, and 72 random bits keep them apart. Its
 * random part is that of Node's own UUID, which draws randomness for many at a time: the uuid package asks the system
 * for each.
 */
export function createRid(): string {
  const random = randomUUID();
  const nowMs = Date.now();
  counter += 1;
  const isSetBack = nowMs < timeMs - maxStepBackMs;
  if (nowMs > timeMs || isSetBack || counter === 2 ** counterBits) {
    setTime(isSetBack ? nowMs : Math.max(nowMs, timeMs + 1));
    counter = Number.parseInt(random.slice(0, 8), 16) % maxStart;
  }
  const high = (counter >>> 14).toString(16).padStart(3, "0");
  const low = (0x8000 | (counter & 0x3fff)).toString(16);
  return `${time}-7${high}-${low}-${random.slice(24)}`;
}

const ridPattern = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Milliseconds since 1970 of a rid, or undefined when it is not a lower-case UUIDv7. */
export function ridTimeMs(rid: string): number | undefined {
  const match = ridPattern.exec(rid);
  return match ? Number.parseInt(`${match[1]}${match[2]}`, 16) : undefined;
}
