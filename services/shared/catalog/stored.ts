import { hash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { ServiceError, toServiceError } from "#shared/process/errors.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import type { CatalogFile } from "./follow.ts";
import { wordsOf, type OpenCatalog } from "./last-good.ts";

/** A catalog that was applied; without its text where that is known. */
export type AppliedCatalog = { version: bigint; hash: string; content: string };

/** Where catalogs are applied: auth-quota. `not_found`: none is, or none before that version. */
export type AppliedSource = {
  getAppliedCatalog: (request: {
    knownVersion?: bigint;
    knownHash?: string;
    beforeVersion?: bigint;
  }) => Promise<AppliedCatalog>;
};

export type StoredCatalogDeps<T> = {
  source: AppliedSource;
  /** The text that is in force until one is applied. */
  readFile: () => string;
  /** Makes a catalog of the file's text. Throws where that cannot be used. */
  takeFile: (text: string) => T;
  /** Makes a catalog of an applied text. Throws where that cannot be used. */
  takeApplied: (text: string) => T;
  onReplaced?: ((value: T) => void) | undefined;
  log: Logger;
};

// Less than kubelet waits for a start.
const maxTries = 30;
const retryMs = 1_000;
const followMs = 2_000;
const maxOlder = 10;

/**
 * Follows the catalogs that are applied, every two seconds. A later one that cannot be used is refused in the log and
 * the last good one stays; at the start the newest good one of the ten before is in force in its place. Rejects while
 * nobody can tell which catalog is applied: with the file's, calls would have prices that are over.
 */
export async function followStoredCatalog<T>(
  deps: StoredCatalogDeps<T>,
  delays = { retryMs, followMs },
): Promise<OpenCatalog<T>> {
  const { source, takeApplied, onReplaced, log } = deps;
  const newest = await askAtStart(source, log, delays.retryMs);
  const begun = newest ? await beginWith(deps, newest) : beginWithFile(deps);
  let { value, file } = begun;
  let seen = newest;
  let isAway = false;
  const take = (applied: AppliedCatalog): void => {
    seen = applied;
    try {
      value = takeApplied(applied.content);
      file = fileOf(applied.content, applied.version);
    } catch (error) {
      file = refused(file, applied, error, log);
      return;
    }
    onReplaced?.(value);
  };
  const look = async (): Promise<void> => {
    try {
      const known = seen && { knownVersion: seen.version, knownHash: seen.hash };
      const applied = await source.getAppliedCatalog(known ?? {});
      isAway = false;
      if (applied.version !== seen?.version || applied.hash !== seen.hash) take(applied);
    } catch (error) {
      if (toServiceError(error).code === "not_found") return;
      if (!isAway) log.warn({ err: error }, "failed to ask for the applied catalog, the one in force stays");
      isAway = true;
    }
  };
  const following = every(delays.followMs, look, log);
  return {
    current: () => value,
    isStale: () => file.problem !== "",
    file: () => file,
    [Symbol.asyncDispose]: () => following[Symbol.asyncDispose](),
  };
}

type Begun<T> = { value: T; file: CatalogFile };

const fileOf = (text: string, version: bigint, problem = ""): CatalogFile => ({
  contentHash: hash("sha256", text),
  text,
  loadedAt: new Date(),
  problem,
  appliedVersion: version,
});

function refused(file: CatalogFile, { version }: AppliedCatalog, error: unknown, log: Logger): CatalogFile {
  const problem = `version ${version}:\n${wordsOf(error)}`;
  log.error({ problems: problem.split("\n") }, "applied catalog refused, the last good one stays");
  return { ...file, problem };
}

function beginWithFile<T>({ readFile, takeFile }: StoredCatalogDeps<T>): Begun<T> {
  const text = readFile();
  return { value: takeFile(text), file: fileOf(text, 0n) };
}

/** With the newest, or the newest good one of those before it. */
async function beginWith<T>({ source, takeApplied, log }: StoredCatalogDeps<T>, newest: AppliedCatalog) {
  const problems: string[] = [];
  let applied: AppliedCatalog | undefined = newest;
  while (applied && problems.length <= maxOlder) {
    const { version, content } = applied;
    try {
      const value = takeApplied(content);
      const problem = problems.join("\n");
      if (problem !== "") {
        const words = "applied catalog refused at the start, an older one is in force";
        log.error({ version, problems: problem.split("\n") }, words);
      }
      return { value, file: fileOf(content, version, problem) };
    } catch (error) {
      problems.push(`version ${version}:\n${wordsOf(error)}`);
    }
    applied = await before(source, version);
  }
  throw new Error(`no applied catalog can be used here:\n${problems.join("\n")}`);
}

async function before(source: AppliedSource, beforeVersion: bigint): Promise<AppliedCatalog | undefined> {
  try {
    return await source.getAppliedCatalog({ beforeVersion });
  } catch {
    return undefined;
  }
}

/** The newest one; undefined: none was applied yet. */
async function askAtStart(source: AppliedSource, log: Logger, delayMs: number): Promise<AppliedCatalog | undefined> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await source.getAppliedCatalog({});
    } catch (error) {
      const { code, message } = toServiceError(error);
      if (code === "not_found") {
        log.info("no catalog is applied yet, that of the file is in force");
        return undefined;
      }
      if (code !== "unavailable" || tries >= maxTries)
        throw new ServiceError(code, `auth-quota does not tell which catalog is applied: ${message}`, error);
      await wait(delayMs);
    }
  }
}
