import { createHash } from "node:crypto";
import {
  closeSync,
  fdatasync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { crc32 } from "node:zlib";
import type { Logger } from "#shared/log.ts";

/** A record that has been written and is not known to be in the ledger yet. */
type Open = { segment: Segment; writtenAtMs: number };
type Segment = { file: string; bytes: number; openRecords: number; isCurrent: boolean };

export type SpoolLimits = { segmentBytes: number; maxBytes: number; syncMs: number };

export const defaultSpoolLimits: SpoolLimits = { segmentBytes: 8 * 1024 * 1024, maxBytes: 4 * 1024 ** 3, syncMs: 100 };

/**
 * The first of a charge's four homes: an append-only file on the relay's own disk. A record that `append` has
 * returned for survives a kill of the process, because the kernel holds it; a power cut may take the last `syncMs`.
 */
export type Spool = AsyncDisposable & {
  /**
   * Writes a record. Never throws: `problem` names a disk that refuses, and the record is tried again until it is in.
   */
  append: (rid: string, record: Uint8Array) => void;
  /** Rids written at least `ageMs` ago that are not confirmed, oldest first, at most `limit`. */
  unconfirmed: (ageMs: number, limit: number) => string[];
  /** The records of unconfirmed rids, read back from disk. */
  read: (rids: ReadonlySet<string>) => Map<string, Uint8Array>;
  /** Marks a record as booked; a segment whose records all are is removed. */
  confirm: (rid: string) => void;
  /** Takes over what dead relay processes left; gives their sessions with the records. */
  adopt: () => Map<string, Uint8Array[]>;
  openRecords: () => number;
  bytes: () => number;
  /** Why no further call should be taken, if so: the disk refuses or the cap is reached. */
  problem: () => string | undefined;
};

const headerBytes = 8;
const fileName = /^(.+)\.(\d+)\.spool$/;

/** A frame is length, crc32 of the payload, payload. */
function frameOf(payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + payload.length);
  frame.writeUInt32LE(payload.length, 0);
  frame.writeUInt32LE(crc32(payload), 4);
  frame.set(payload, headerBytes);
  return frame;
}

/** Reads whole frames; a torn or damaged one ends the reading, because nothing behind it can be trusted. */
export function readFrames(bytes: Buffer): { payloads: Uint8Array[]; lostBytes: number } {
  const payloads: Uint8Array[] = [];
  let at = 0;
  while (at + headerBytes <= bytes.length) {
    const end = at + headerBytes + bytes.readUInt32LE(at);
    // No record is empty, but a power cut may leave zeros, which read as an empty one.
    if (end === at + headerBytes || end > bytes.length) break;
    const payload = bytes.subarray(at + headerBytes, end);
    if (crc32(payload) !== bytes.readUInt32LE(at + 4)) break;
    payloads.push(payload);
    at = end;
  }
  return { payloads, lostBytes: bytes.length - at };
}

/**
 * Keeps two live processes out of one folder. A listening socket is the lock, because the kernel drops it with the
 * process however that dies; on Linux it has no file that could be left behind.
 */
async function lockFolder(folder: string): Promise<Server> {
  const name = `relay-spool-${createHash("sha256").update(resolve(folder)).digest("hex").slice(0, 32)}`;
  const path = process.platform === "linux" ? `\0${name}` : join(tmpdir(), `${name}.lock`);
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((locked, reject) => {
    server.once("error", (cause) =>
      reject(new Error(`the spool folder ${folder} is in use by another relay`, { cause })),
    );
    server.listen(path, locked);
  });
  server.unref();
  return server;
}

type State = {
  folder: string;
  session: string;
  log: Logger;
  limits: SpoolLimits;
  open: Map<string, Open>;
  segments: Set<Segment>;
  current: Segment | undefined;
  descriptor: number;
  isDirty: boolean;
  failure: string | undefined;
  /** Records that the disk refused. */
  unwritten: Map<string, Uint8Array>;
  nextSegment: number;
};

function startSegment(state: State): Segment {
  const { current: before, descriptor: descriptorBefore } = state;
  const file = join(state.folder, `${state.session}.${state.nextSegment}.spool`);
  // Opened first: when that fails, all stays as it was.
  state.descriptor = openSync(file, "a", 0o600);
  state.nextSegment += 1;
  const segment: Segment = { file, bytes: 0, openRecords: 0, isCurrent: true };
  state.segments.add(segment);
  state.current = segment;
  if (before) {
    before.isCurrent = false;
    closeSync(descriptorBefore);
    dropIfBooked(state, before);
  }
  return segment;
}

function dropIfBooked(state: State, segment: Segment): void {
  if (segment.isCurrent || segment.openRecords > 0) return;
  state.segments.delete(segment);
  try {
    unlinkSync(segment.file);
  } catch (error) {
    state.log.error({ err: error, file: segment.file }, "a booked spool segment could not be removed");
  }
}

function track(state: State, rid: string, segment: Segment): void {
  if (state.open.has(rid)) return;
  state.open.set(rid, { segment, writtenAtMs: performance.now() });
  segment.openRecords += 1;
}

function append(state: State, rid: string, record: Uint8Array): void {
  try {
    const frame = frameOf(record);
    const fits = state.current && state.current.bytes + frame.length <= state.limits.segmentBytes;
    const segment = fits && state.current ? state.current : startSegment(state);
    const written = writeSync(state.descriptor, frame);
    segment.bytes += written;
    if (written < frame.length) throw new Error(`only ${written} of ${frame.length} bytes were written`);
    track(state, rid, segment);
    state.unwritten.delete(rid);
    state.isDirty = true;
    state.failure = undefined;
  } catch (error) {
    // The torn frame would hide what follows it: go on in a new segment once the disk takes writes again.
    if (state.current) state.current.bytes = state.limits.segmentBytes;
    state.failure = `the spool cannot be written: ${error instanceof Error ? error.message : String(error)}`;
    if (state.unwritten.has(rid)) return;
    state.unwritten.set(rid, record);
    state.log.error({ err: error, rid }, "a usage record is not in the spool");
  }
}

/** While the disk refuses, no call is taken that could find out that it takes writes again: this does. */
function appendAgain(state: State): void {
  for (const [rid, record] of Array.from(state.unwritten)) {
    append(state, rid, record);
    if (state.failure !== undefined) return;
  }
}

function adopt(state: State, ridOf: (record: Uint8Array) => string): Map<string, Uint8Array[]> {
  const found = new Map<string, Uint8Array[]>();
  for (const entry of readdirSync(state.folder).toSorted()) {
    const session = fileName.exec(entry)?.[1];
    if (session === undefined || session === state.session) continue;
    const file = join(state.folder, entry);
    const { payloads, lostBytes } = readFrames(readFileSync(file));
    if (lostBytes > 0) state.log.warn({ file, lostBytes }, "a spool segment ends in a torn frame");
    const segment: Segment = { file, bytes: statSync(file).size, openRecords: 0, isCurrent: false };
    state.segments.add(segment);
    for (const payload of payloads) track(state, ridOf(payload), segment);
    found.set(session, [...(found.get(session) ?? []), ...payloads]);
    dropIfBooked(state, segment);
  }
  return found;
}

function read(state: State, rids: ReadonlySet<string>, ridOf: (record: Uint8Array) => string): Map<string, Uint8Array> {
  const segments = new Set([...rids].flatMap((rid) => state.open.get(rid)?.segment ?? []));
  const records = new Map<string, Uint8Array>();
  for (const segment of segments) {
    for (const payload of readFrames(readFileSync(segment.file)).payloads) {
      const rid = ridOf(payload);
      if (rids.has(rid)) records.set(rid, payload);
    }
  }
  return records;
}

function confirm(state: State, rid: string): void {
  const open = state.open.get(rid);
  if (!open) return;
  state.open.delete(rid);
  open.segment.openRecords -= 1;
  dropIfBooked(state, open.segment);
}

/** Opens the spool folder for one relay process. Throws when another live process uses it. */
export async function openSpool(
  folder: string,
  session: string,
  {
    log,
    ridOf,
    limits = defaultSpoolLimits,
  }: { log: Logger; ridOf: (record: Uint8Array) => string; limits?: SpoolLimits },
): Promise<Spool> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const lock = await lockFolder(folder);
  const state: State = {
    folder,
    session,
    log,
    limits,
    open: new Map(),
    segments: new Set(),
    current: undefined,
    descriptor: -1,
    isDirty: false,
    failure: undefined,
    unwritten: new Map(),
    nextSegment: 0,
  };
  // Even without a record its name tells the next process of a session that may have left open holds.
  startSegment(state);
  const syncTimer = setInterval(() => {
    appendAgain(state);
    if (!state.isDirty) return;
    state.isDirty = false;
    fdatasync(state.descriptor, (error) => error && log.error({ err: error }, "spool could not be synced"));
  }, limits.syncMs);
  const totalBytes = (): number => [...state.segments].reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    append: (rid, record) => append(state, rid, record),
    adopt: () => adopt(state, ridOf),
    read: (rids) => read(state, rids, ridOf),
    confirm: (rid) => confirm(state, rid),
    unconfirmed: (ageMs, limit) => {
      const rids: string[] = [];
      const writtenBeforeMs = performance.now() - ageMs;
      for (const [rid, { writtenAtMs }] of state.open) {
        if (writtenAtMs > writtenBeforeMs || rids.length >= limit) break;
        rids.push(rid);
      }
      return rids;
    },
    openRecords: () => state.open.size,
    bytes: totalBytes,
    problem: () => state.failure ?? (totalBytes() > limits.maxBytes ? "the spool is full" : undefined),
    [Symbol.asyncDispose]: async () => {
      clearInterval(syncTimer);
      if (state.current) {
        state.current.isCurrent = false;
        closeSync(state.descriptor);
        dropIfBooked(state, state.current);
      }
      await new Promise<void>((closed) => lock.close(() => closed()));
    },
  };
}
