import { createHash } from "node:crypto";
import {
  closeSync,
  fdatasync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** `isBooked`: all in it is, and nobody writes to it any more. */
export type SpoolFile = { file: string; relaySession: string; isBooked: boolean };

const fileName = /^(.+)\.(\d+)\.(spool|booked)$/;

/** The segments in a folder in the order in which each session wrote them. */
export function segmentsIn(files: SpoolFiles, folder: string): (SpoolFile & { number: number })[] {
  const found = files.list(folder).flatMap((entry) => {
    const [, relaySession, number, state] = fileName.exec(entry) ?? [];
    if (relaySession === undefined) return [];
    return [{ relaySession, number: Number(number), file: join(folder, entry), isBooked: state === "booked" }];
  });
  return found.toSorted((one, other) => one.number - other.number);
}

/** The booked ones, the oldest first: the names of processes begin with the time of their start. */
export function bookedIn(files: SpoolFiles, folder: string): string[] {
  const booked = segmentsIn(files, folder).filter(({ isBooked }) => isBooked);
  return booked.toSorted((one, other) => compare(one.relaySession, other.relaySession)).map(({ file }) => file);
}

const compare = (one: string, other: string): number => (one === other ? 0 : one < other ? -1 : 1);

/** What a spool needs of a disk. Everything but `lock` and `sync` has happened when it returns. */
export type SpoolFiles = {
  /** Makes the folder and keeps other live processes out of it. */
  lock: (folder: string) => Promise<AsyncDisposable>;
  list: (folder: string) => string[];
  read: (file: string) => Buffer;
  openForAppend: (file: string) => number;
  /** Writes the first `length` bytes; gives the number of those that were written. */
  write: (descriptor: number, bytes: Uint8Array, length: number) => number;
  sync: (descriptor: number, done: (error: Error | null) => void) => void;
  close: (descriptor: number) => void;
  rename: (file: string, to: string) => void;
  remove: (file: string) => void;
};

/** The disk of this machine. */
export const nodeFiles: SpoolFiles = {
  lock: lockFolder,
  list: readdirSync,
  read: readFileSync,
  openForAppend: (file) => openSync(file, "a", 0o600),
  write: (descriptor, bytes, length) => writeSync(descriptor, bytes, 0, length),
  sync: fdatasync,
  close: closeSync,
  rename: renameSync,
  remove: unlinkSync,
};

/**
 * Keeps two live processes out of one folder. A listening socket is the lock, because the kernel drops it with the
 * process however that dies; on Linux it has no file that could be left behind.
 */
async function lockFolder(folder: string): Promise<AsyncDisposable> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
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
  return { [Symbol.asyncDispose]: () => new Promise<void>((closed) => server.close(() => closed())) };
}
