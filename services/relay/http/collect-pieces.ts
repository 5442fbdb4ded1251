/** Gives memory back; what is smaller than its memory shares it with others, and what was given away has none. */
function free({ buffer, length }: Buffer): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached && length === buffer.byteLength) buffer.transfer(0);
}

/** Where the pieces of a body are put together; without `whole`, `drop` gives back what was taken. */
export type PieceCollector = { add: (chunk: Buffer) => void; whole: () => Buffer; drop: () => void };

const firstBytes = 64 * 1024;

/**
 * Pieces are put one behind the other into memory that doubles: an announcement takes none, and a piece of one byte
 * takes no more than that. A piece that was copied is given back at once, and so is memory that was outgrown: left to
 * the collector, megabytes outside of the heap make it look through all of the heap.
 */
export function startCollecting(mostBytes: number): PieceCollector {
  let only: Buffer | undefined;
  let memory = Buffer.alloc(0);
  let bytes = 0;
  const resize = (length: number): void => {
    const before = memory;
    memory = Buffer.allocUnsafeSlow(length);
    before.copy(memory, 0, 0, bytes);
    free(before);
  };
  const put = (chunk: Buffer): void => {
    const needed = bytes + chunk.length;
    if (needed > memory.length) resize(Math.max(needed, Math.min(Math.max(firstBytes, 2 * memory.length), mostBytes)));
    bytes += chunk.copy(memory, bytes);
    free(chunk);
  };
  return {
    add: (chunk) => {
      if (!only && bytes === 0) return void (only = chunk);
      if (only) put(only);
      only = undefined;
      put(chunk);
    },
    whole: () => {
      if (only) return only;
      if (bytes < memory.length) resize(bytes);
      return memory;
    },
    drop: () => {
      if (only) free(only);
      free(memory);
    },
  };
}
