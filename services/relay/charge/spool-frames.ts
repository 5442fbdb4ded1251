import { crc32 } from "node:zlib";

/** What a spool file holds: the record of a call that has ended, or what a running one has cost so far. */
export type Frame = { payload: Uint8Array; isCheckpoint: boolean };

const headerBytes = 8;
// Records are far below 2 GiB, which leaves the highest bit of the length to tell the two kinds apart.
const checkpointBit = 0x8000_0000;

export const frameBytes = ({ payload }: Frame): number => headerBytes + payload.length;

/** Writes a frame to the beginning of `space`: length, crc32 of the payload, payload. */
export function putFrame(space: Buffer, { payload, isCheckpoint }: Frame): void {
  space.writeUInt32LE(payload.length + (isCheckpoint ? checkpointBit : 0), 0);
  space.writeUInt32LE(crc32(payload), 4);
  space.set(payload, headerBytes);
}

/** Reads whole frames; a torn or damaged one ends the reading, because nothing behind it can be trusted. */
export function readFrames(bytes: Buffer): { frames: Frame[]; lostBytes: number } {
  const frames: Frame[] = [];
  let at = 0;
  while (at + headerBytes <= bytes.length) {
    const head = bytes.readUInt32LE(at);
    const isCheckpoint = head >= checkpointBit;
    const end = at + headerBytes + (isCheckpoint ? head - checkpointBit : head);
    // No record is empty, but a power cut may leave zeros, which read as an empty one.
    if (end === at + headerBytes || end > bytes.length) break;
    const payload = bytes.subarray(at + headerBytes, end);
    if (crc32(payload) !== bytes.readUInt32LE(at + 4)) break;
    frames.push({ payload, isCheckpoint });
    at = end;
  }
  return { frames, lostBytes: bytes.length - at };
}
