import type { SpoolFiles } from "../../../services/relay/charge/spool-files.ts";
import { currentProcess } from "./clock.ts";

/** The disk of one relay's node: it outlives the process, unless the node is lost. */
export type Disk = {
  files: Map<string, Buffer>;
  /** Refuses to write. */
  isFull: boolean;
  /** Has refused to write since its process began. */
  hasRefused: boolean;
  /** The next write is cut off, and the process killed by this at once: a torn frame. */
  tearNext: (() => void) | undefined;
};

export function createDisk(): Disk {
  return { files: new Map(), isFull: false, hasRefused: false, tearNext: undefined };
}

function refuse(disk: Disk): never {
  disk.hasRefused = true;
  throw new Error("ENOSPC: no space left on device");
}

/** The file system as the spool of one process sees it. What a dead process still writes does not arrive. */
export function filesOn(disk: Disk): SpoolFiles {
  const open = new Map<number, string>();
  let nextDescriptor = 3;
  const owner = currentProcess();
  const isDead = (): boolean => owner?.state === "dead";
  const append = (file: string, bytes: Uint8Array): void =>
    void disk.files.set(file, Buffer.concat([disk.files.get(file) ?? Buffer.alloc(0), bytes]));
  return {
    lock: () => Promise.resolve({ [Symbol.asyncDispose]: () => Promise.resolve() }),
    list: () => [...disk.files.keys()].map((file) => file.slice(file.lastIndexOf("/") + 1)),
    read: (file) => {
      const bytes = disk.files.get(file);
      if (!bytes) throw new Error(`ENOENT: ${file}`);
      return bytes;
    },
    openForAppend: (file) => {
      if (disk.isFull) refuse(disk);
      if (!isDead()) append(file, Buffer.alloc(0));
      nextDescriptor += 1;
      open.set(nextDescriptor, file);
      return nextDescriptor;
    },
    write: (descriptor, space, length) => {
      const bytes = space.subarray(0, length);
      const file = open.get(descriptor);
      if (file === undefined) throw new Error("EBADF");
      if (isDead()) return bytes.length;
      if (disk.isFull) {
        append(file, bytes.subarray(0, 5));
        refuse(disk);
      }
      const tear = disk.tearNext;
      disk.tearNext = undefined;
      append(file, tear ? bytes.subarray(0, bytes.length >> 1) : bytes);
      tear?.();
      return bytes.length;
    },
    sync: (_descriptor, done) => done(null),
    close: (descriptor) => void open.delete(descriptor),
    rename: (file, to) => {
      const bytes = disk.files.get(file);
      if (isDead() || !bytes) return;
      disk.files.delete(file);
      disk.files.set(to, bytes);
    },
    remove: (file) => void (isDead() || disk.files.delete(file)),
  };
}
