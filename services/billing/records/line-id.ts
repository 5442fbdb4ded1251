import { randomFillSync, randomInt } from "node:crypto";
import { v7 } from "uuid";

// Random bytes are drawn for many ids at once: drawn for each, they cost more than all else that an id needs.
const drawn = new Uint8Array(4_096);
let used = drawn.length;
let sequence = randomInt(2 ** 31);

/** Makes the id of a ledger line: a UUIDv7; those that a process makes in one millisecond grow in their order. */
export function createLineId(atMs: number): string {
  if (used + 16 > drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  const random = drawn.subarray(used, used + 16);
  used += 16;
  sequence = (sequence + 1) & 0x7fff_ffff;
  return v7({ msecs: atMs, seq: sequence, random });
}

/** The least UUID whose first 48 bits are this time: every rid of an earlier millisecond is below it. */
export function firstUuidAt(atMs: number): string {
  const time = atMs.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}

/** The time in such an id, in milliseconds since 1970. */
export const lineTimeMs = (lineId: string): number => Number.parseInt(lineId.slice(0, 8) + lineId.slice(9, 13), 16);
