import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";

/** Something is wrong with the archive or with what it holds; `message` is for the operator. */
export class ArchiveFault extends Error {}

/** Where archived days are kept. Names are paths such as `2027-01-31/lines-001.parquet`. */
export type ArchivePlace = {
  /** Keeps a file under a name: whole, or not at all. What had the name before is replaced. */
  putFile: (name: string, path: string, stop: AbortSignal) => Promise<void>;
  putText: (name: string, text: string, stop: AbortSignal) => Promise<void>;
  /** Writes what is kept to a file. */
  getFile: (name: string, path: string, stop: AbortSignal) => Promise<void>;
  /** A text that is kept; undefined when there is none. */
  getText: (name: string, stop: AbortSignal) => Promise<string | undefined>;
};

/** SHA-256 of a file, in hexadecimal. */
export async function hashOfFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}
