import { join } from "node:path";
import type { Logger } from "#shared/process/log.ts";
import { bookedIn, nodeFiles, segmentsIn, type SpoolFile, type SpoolFiles } from "./spool-files.ts";
import { frameBytes, putFrame, readFrames, type Frame } from "./spool-frames.ts";

/**
 * Of a call whose record is not known to be in the ledger yet: where that is, and when it was written or last asked
 * about. Calls of the same moment share one, so that little is kept of each.
 */
type Open = Readonly<{ segment: Segment; addedAtMs: number; lookedAtMs: number; isCheckpoint: boolean }>;
type Segment = { file: string; bytes: number; openRecords: number; isCurrent: boolean };

/** Who pays for calls within a lease. */
export type LeasePayer = { accountId: string; keyId: string };

/** `keptSegments`: how many are kept when all in them is booked, for a ledger and a stream that are both put back. */
export type SpoolLimits = { segmentBytes: number; maxBytes: number; keptSegments: number; syncMs: number };

const segmentBytes = 8 * 1024 * 1024;
const keptShare = 16;

/** The limits of a spool of that size, beside which a sixteenth of it is kept of what is booked. */
export const spoolLimits = (maxBytes: number): SpoolLimits => ({
  segmentBytes,
  maxBytes,
  keptSegments: Math.floor(maxBytes / segmentBytes / keptShare),
  syncMs: 100,
});

const defaultSpoolLimits = spoolLimits(4 * 1024 ** 3);

/**
 * The first of a charge's four homes: an append-only file on the relay's own disk. A record that `append` has
 * returned for survives a kill of the process, because the kernel holds it; a power cut may take the last `syncMs`.
 */
export type Spool = AsyncDisposable & {
  /**
   * Writes a record. Never throws: `problem` names a disk that refuses, and the record is tried again until it is in.
   */
  append: (rid: string, record: Uint8Array, accountHash?: number) => void;
  /** The `accountHash` that an unconfirmed record was written with; undefined for those of other processes. */
  accountHashOf: (rid: string) => number | undefined;
  /** Notes, until it is confirmed, whose call within a lease a record is of. */
  noteLeased: (rid: string, payer: LeasePayer) => void;
  leasedTo: (rid: string) => LeasePayer | undefined;
  /**
   * Writes what a running call has cost so far, as a provisional record, for whoever takes over should this process be
   * killed. Best effort: the next one, or the record itself, takes its place. Never throws.
   */
  checkpoint: (rid: string, record: Uint8Array) => void;
  /** Rids not confirmed that were written or postponed before a monotonic time, oldest first, at most `limit`. */
  unconfirmed: (beforeMs: number, limit: number) => string[];
  /** Puts a rid behind all others, so that those that take long do not keep the rest from being asked about. */
  postpone: (rid: string) => void;
  /** The records of unconfirmed rids, read back from disk. */
  read: (rids: ReadonlySet<string>) => Map<string, Uint8Array>;
  /** Marks a record as booked; of segments whose records all are, only the newest are kept. */
  confirm: (rid: string) => void;
  /** The files with records, booked ones too, each with the process that wrote it, in the order in which it did. */
  files: () => SpoolFile[];
  /** The records in one of them, without checkpoints; none where it is gone. */
  recordsIn: (file: string) => Uint8Array[];
  /** Takes over what dead relay processes left, by their sessions. */
  adopt: () => Map<string, Adopted>;
  openRecords: () => number;
  /** For how long this process has the oldest of them; 0 without any. */
  oldestMs: () => number;
  bytes: () => number;
  /** Why no further call should be taken, if so: the disk refuses or the cap is reached. */
  problem: () => string | undefined;
};

/** What a dead relay process left: records of calls, and the last checkpoints of those that it was still serving. */
export type Adopted = { records: Uint8Array[]; checkpoints: Uint8Array[] };

type State = {
  folder: string;
  session: string;
  log: Logger;
  limits: SpoolLimits;
  files: SpoolFiles;
  open: Map<string, Open>;
  accountHashes: Map<string, number>;
  leasedTo: Map<string, LeasePayer>;
  newest: Open | undefined;
  segments: Set<Segment>;
  /** Files of which all is booked, the oldest first. */
  kept: string[];
  current: Segment | undefined;
  descriptor: number;
  isDirty: boolean;
  failure: string | undefined;
  /** Records that the disk refused. */
  unwritten: Map<string, Uint8Array>;
  nextSegment: number;
  /** Where each frame is put together: the kernel has its own copy when a write returns. */
  space: Buffer;
};

const usualSpaceBytes = 16_384;

function startSegment(state: State): Segment {
  const { current: before, descriptor: descriptorBefore } = state;
  const file = join(state.folder, `${state.session}.${state.nextSegment}.spool`);
  // Opened first: when that fails, all stays as it was.
  state.descriptor = state.files.openForAppend(file);
  state.nextSegment += 1;
  const segment: Segment = { file, bytes: 0, openRecords: 0, isCurrent: true };
  state.segments.add(segment);
  state.current = segment;
  if (before) {
    before.isCurrent = false;
    state.files.close(descriptorBefore);
    dropIfBooked(state, before);
  }
  return segment;
}

function dropIfBooked(state: State, segment: Segment): void {
  if (segment.isCurrent || segment.openRecords > 0) return;
  state.segments.delete(segment);
  if (segment.bytes === 0 || state.limits.keptSegments === 0) return remove(state, segment.file);
  const file = segment.file.replace(/spool$/, "booked");
  try {
    state.files.rename(segment.file, file);
  } catch (error) {
    return state.log.error({ err: error, file: segment.file }, "a booked spool segment could not be renamed");
  }
  state.kept.push(file);
  trimKept(state, state.limits.keptSegments);
}

function trimKept(state: State, most: number): void {
  for (const file of state.kept.splice(0, Math.max(0, state.kept.length - most))) remove(state, file);
}

function remove(state: State, file: string): void {
  try {
    state.files.remove(file);
  } catch (error) {
    state.log.error({ err: error, file }, "a booked spool segment could not be removed");
  }
}

/** Notes where the newest word on a call stands; a segment is kept for as long as it holds one. */
function track(state: State, rid: string, { segment, isCheckpoint }: Pick<Open, "segment" | "isCheckpoint">): void {
  const before = state.open.get(rid);
  if (before && !before.isCheckpoint) return;
  // Put behind all others, which keeps the map sorted by time.
  if (before) state.open.delete(rid);
  state.open.set(rid, openOf(state, segment, isCheckpoint));
  segment.openRecords += 1;
  if (before) release(state, before.segment);
}

const momentMs = 10;

function openOf(state: State, segment: Segment, isCheckpoint: boolean): Open {
  const { newest } = state;
  const nowMs = Math.floor(performance.now() / momentMs) * momentMs;
  if (newest?.addedAtMs === nowMs && newest.segment === segment && newest.isCheckpoint === isCheckpoint) return newest;
  return (state.newest = { segment, isCheckpoint, addedAtMs: nowMs, lookedAtMs: nowMs });
}

function release(state: State, segment: Segment): void {
  segment.openRecords -= 1;
  dropIfBooked(state, segment);
}

function write(state: State, rid: string, frame: Frame): void {
  try {
    const length = frameBytes(frame);
    if (length > state.space.length) state.space = Buffer.allocUnsafe(length);
    putFrame(state.space, frame);
    const fits = state.current && state.current.bytes + length <= state.limits.segmentBytes;
    const segment = fits && state.current ? state.current : startSegment(state);
    const written = state.files.write(state.descriptor, state.space, length);
    segment.bytes += written;
    if (written < length) throw new Error(`only ${written} of ${length} bytes were written`);
    track(state, rid, { segment, isCheckpoint: frame.isCheckpoint });
    state.isDirty = true;
  } catch (error) {
    // The torn frame would hide what follows it: go on in a new segment once the disk takes writes again.
    if (state.current) state.current.bytes = state.limits.segmentBytes;
    // What is booked makes room for what is not.
    trimKept(state, 0);
    throw error;
  }
}

function append(state: State, rid: string, record: Uint8Array): void {
  try {
    write(state, rid, { payload: record, isCheckpoint: false });
    state.unwritten.delete(rid);
    state.failure = undefined;
  } catch (error) {
    state.failure = `the spool cannot be written: ${error instanceof Error ? error.message : String(error)}`;
    if (state.unwritten.has(rid)) return;
    state.unwritten.set(rid, record);
    state.log.error({ err: error, rid }, "a usage record is not in the spool");
  }
}

function checkpoint(state: State, rid: string, record: Uint8Array): void {
  try {
    if (!state.unwritten.has(rid)) write(state, rid, { payload: record, isCheckpoint: true });
  } catch {
    // A disk that refuses is found out, and told, by the next record.
  }
}

/** While the disk refuses, no call is taken that could find out that it takes writes again: this does. */
function appendAgain(state: State): void {
  for (const [rid, record] of Array.from(state.unwritten)) {
    append(state, rid, record);
    if (state.failure !== undefined) return;
  }
}

function recordsIn({ files }: State, file: string): Uint8Array[] {
  let bytes: Buffer;
  try {
    bytes = files.read(file);
  } catch {
    // Others have been kept since in its place.
    return [];
  }
  const { frames } = readFrames(bytes);
  return frames.filter(({ isCheckpoint }) => !isCheckpoint).map(({ payload }) => payload);
}

function adopt(state: State, ridOf: (record: Uint8Array) => string): Map<string, Adopted> {
  const bySession = new Map<string, Frame[]>();
  for (const { relaySession: session, file, isBooked } of segmentsIn(state.files, state.folder)) {
    if (session === state.session || isBooked) continue;
    const bytes = state.files.read(file);
    const { frames, lostBytes } = readFrames(bytes);
    if (lostBytes > 0) state.log.warn({ file, lostBytes }, "a spool segment ends in a torn frame");
    const segment: Segment = { file, bytes: bytes.length, openRecords: 0, isCurrent: false };
    state.segments.add(segment);
    for (const { payload, isCheckpoint } of frames) track(state, ridOf(payload), { segment, isCheckpoint });
    const left = bySession.get(session) ?? [];
    for (const frame of frames) left.push(frame);
    bySession.set(session, left);
    dropIfBooked(state, segment);
  }
  return new Map([...bySession].map(([session, frames]) => [session, sortOut(state, frames, ridOf)]));
}

/** Records count, and of the other calls the last checkpoint; another process may have left the record of a call. */
function sortOut(state: State, frames: Frame[], ridOf: (record: Uint8Array) => string): Adopted {
  const checkpoints = new Map<string, Uint8Array>();
  for (const { payload, isCheckpoint } of frames) {
    const rid = ridOf(payload);
    if (isCheckpoint && state.open.get(rid)?.isCheckpoint) checkpoints.set(rid, payload);
  }
  const records = frames.filter(({ isCheckpoint }) => !isCheckpoint).map(({ payload }) => payload);
  return { records, checkpoints: [...checkpoints.values()] };
}

function read(state: State, rids: ReadonlySet<string>, ridOf: (record: Uint8Array) => string): Map<string, Uint8Array> {
  const segments = new Set([...rids].flatMap((rid) => state.open.get(rid)?.segment ?? []));
  const records = new Map<string, Uint8Array>();
  for (const segment of segments) {
    for (const { payload, isCheckpoint } of readFrames(state.files.read(segment.file)).frames) {
      const rid = ridOf(payload);
      if (!isCheckpoint && rids.has(rid)) records.set(rid, payload);
    }
  }
  return records;
}

function postpone({ open }: State, rid: string): void {
  const found = open.get(rid);
  if (!found) return;
  // A map keeps the order of insertion, so that it stays sorted by time.
  open.delete(rid);
  // Rounded up, so that who asks about all from before now is not given it again.
  open.set(rid, { ...found, lookedAtMs: Math.ceil(performance.now()) });
}

function unconfirmed({ open }: State, beforeMs: number, limit: number): string[] {
  const rids: string[] = [];
  for (const [rid, { lookedAtMs, isCheckpoint }] of open) {
    if (lookedAtMs > beforeMs || rids.length >= limit) break;
    if (!isCheckpoint) rids.push(rid);
  }
  return rids;
}

function confirm(state: State, rid: string): void {
  const open = state.open.get(rid);
  if (!open) return;
  state.open.delete(rid);
  state.accountHashes.delete(rid);
  state.leasedTo.delete(rid);
  release(state, open.segment);
}

function oldestMs({ open }: State): number {
  const nowMs = performance.now();
  let addedAtMs = nowMs;
  for (const found of open.values()) if (!found.isCheckpoint) addedAtMs = Math.min(addedAtMs, found.addedAtMs);
  return nowMs - addedAtMs;
}

type SpoolParts = {
  log: Logger;
  ridOf: (record: Uint8Array) => string;
  limits?: SpoolLimits;
  files?: SpoolFiles;
};

/** What a process begins with; what others before it have kept is kept on. */
function beginState(folder: string, session: string, { log, limits, files }: Required<SpoolParts>): State {
  const state: State = {
    folder,
    session,
    log,
    limits,
    files,
    open: new Map(),
    accountHashes: new Map(),
    leasedTo: new Map(),
    newest: undefined,
    segments: new Set(),
    kept: bookedIn(files, folder),
    current: undefined,
    descriptor: -1,
    isDirty: false,
    failure: undefined,
    unwritten: new Map(),
    nextSegment: 0,
    space: Buffer.allocUnsafe(usualSpaceBytes),
  };
  trimKept(state, limits.keptSegments);
  return state;
}

/** Opens the spool folder for one relay process. Throws when another live process uses it. */
export async function openSpool(
  folder: string,
  session: string,
  { log, ridOf, limits = defaultSpoolLimits, files = nodeFiles }: SpoolParts,
): Promise<Spool> {
  const lock = await files.lock(folder);
  const state = beginState(folder, session, { log, ridOf, limits, files });
  // Even without a record its name tells the next process of a session that may have left open holds.
  startSegment(state);
  const syncTimer = setInterval(() => {
    appendAgain(state);
    if (!state.isDirty) return;
    state.isDirty = false;
    files.sync(state.descriptor, (error) => error && log.error({ err: error }, "spool could not be synced"));
  }, limits.syncMs);
  const totalBytes = (): number => [...state.segments].reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    append: (rid, record, accountHash) => {
      if (accountHash !== undefined) state.accountHashes.set(rid, accountHash);
      append(state, rid, record);
    },
    accountHashOf: (rid) => state.accountHashes.get(rid),
    noteLeased: (rid, { accountId, keyId }) => void state.leasedTo.set(rid, { accountId, keyId }),
    leasedTo: (rid) => state.leasedTo.get(rid),
    checkpoint: (rid, record) => checkpoint(state, rid, record),
    adopt: () => adopt(state, ridOf),
    read: (rids) => read(state, rids, ridOf),
    confirm: (rid) => confirm(state, rid),
    files: () => segmentsIn(state.files, state.folder),
    recordsIn: (file) => recordsIn(state, file),
    postpone: (rid) => postpone(state, rid),
    unconfirmed: (beforeMs, limit) => unconfirmed(state, beforeMs, limit),
    openRecords: () => [...state.open.values()].filter(({ isCheckpoint }) => !isCheckpoint).length,
    oldestMs: () => oldestMs(state),
    bytes: totalBytes,
    problem: () => state.failure ?? (totalBytes() > limits.maxBytes ? "the spool is full" : undefined),
    [Symbol.asyncDispose]: async () => {
      clearInterval(syncTimer);
      if (state.current) {
        state.current.isCurrent = false;
        files.close(state.descriptor);
        dropIfBooked(state, state.current);
      }
      await lock[Symbol.asyncDispose]();
    },
  };
}
