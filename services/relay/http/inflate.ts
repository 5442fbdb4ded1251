import type { Transform } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";

const chunkSize = 64 * 1024;

// RFC 9659: a sender needs no window above 8 MB, and a reader that grants more grants it to anybody.
const zstdWindowLog = 23;

const decoders: Record<string, () => Transform> = {
  gzip: () => createGunzip({ chunkSize }),
  "x-gzip": () => createGunzip({ chunkSize }),
  deflate: () => createInflate({ chunkSize }),
  br: () => createBrotliDecompress({ chunkSize }),
  zstd: () => createZstdDecompress({ chunkSize, params: { [constants.ZSTD_d_windowLogMax]: zstdWindowLog } }),
};

/** The name of a body's encoding; undefined where it has none. */
export function encodingOf(header: string | undefined): string | undefined {
  const encoding = header?.trim().toLowerCase() ?? "";
  return encoding === "" || encoding === "identity" ? undefined : encoding;
}

/**
 * A stream that inflates this encoding beside the event loop; undefined for an unknown encoding and for several on top
 * of each other, which no client has a use for.
 */
export function createInflater(encoding: string): Transform | undefined {
  return Object.hasOwn(decoders, encoding) ? decoders[encoding]?.() : undefined;
}

/** How much larger than on the wire a body may become, beyond the first of it: text becomes a tenth of itself. */
const maxRatio = 100;
const freeInflatedBytes = 8 * 1024 * 1024;

/** Whether so many bytes on the wire have become more than any honest sender needs. */
export const isBomb = (inflatedBytes: number, wireBytes: number): boolean =>
  inflatedBytes > freeInflatedBytes && inflatedBytes > wireBytes * maxRatio;
