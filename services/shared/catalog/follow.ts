import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { followFiles, type Followed } from "#shared/process/follow-files.ts";
import type { Logger } from "#shared/process/log.ts";

/** What became of a catalog's file. */
export type CatalogFile = {
  /** SHA-256 of the text in force, in hexadecimal. */
  contentHash: string;
  text: string;
  loadedAt: Date;
  /** Why the file as it is now was refused; empty when it was not. */
  problem: string;
  /** Where applied catalogs are followed: the version in force, 0 for that of the file before any was applied. */
  appliedVersion?: bigint | undefined;
};

/** What is in force of a catalog that follows its file, and what became of that. */
export type FollowedCatalog<T> = Followed<T> & { file: () => CatalogFile };

export type FollowOptions<T> = {
  onReplaced?: ((value: T) => void) | undefined;
  /** The text of another catalog, in force when the file cannot be used at the start. */
  fallback?: string | undefined;
};

/**
 * Reads a catalog's file and follows its changes without a restart. What `take` throws for the first text is thrown
 * here, unless there is a fallback; a later text that it throws for is refused in the log, and the last good one stays
 * in force. `onReplaced` gets what each later text gave.
 */
export function followCatalogFile<T>(
  file: string,
  take: (text: string) => T,
  log: Logger,
  { onReplaced = () => undefined, fallback }: FollowOptions<T>,
): FollowedCatalog<T> {
  let seen: CatalogFile = { contentHash: "", text: "", loadedAt: new Date(0), problem: "" };
  const takeSeen = (text: string): T => {
    const value = take(text);
    seen = { contentHash: hash("sha256", text), text, loadedAt: new Date(), problem: "" };
    return value;
  };
  const followed = followFiles([file], () => takeSeen(readFileSync(file, "utf8")), {
    fallback: fallback === undefined ? undefined : () => takeSeen(fallback),
    onReplaced,
    onRefused: (error) => {
      const problem = error instanceof Error ? error.message : String(error);
      seen = { ...seen, problem };
      log.error({ problems: problem.split("\n") }, "catalog refused, the last good one stays");
    },
  });
  return { ...followed, file: () => seen };
}
