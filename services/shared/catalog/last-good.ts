import { existsSync, readFileSync } from "node:fs";
import { createHmac, hash, timingSafeEqual } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { toServiceError } from "#shared/process/errors.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import type { FollowedCatalog } from "./follow.ts";

/** The catalog that was kept last. `version` grows with each other one. */
export type KeptCatalog = {
  version: bigint;
  hash: string;
  content: string;
  takenBy: string;
  takenAt?: Timestamp | undefined;
  proof: Uint8Array;
};

/** Where catalogs are kept: auth-quota for relays, its own database for video-task. */
export type CatalogKeeper = {
  keepCatalog: (kept: Pick<KeptCatalog, "content" | "takenBy" | "proof">) => Promise<unknown>;
  /** Throws a ServiceError: `not_found` before the first one, `unavailable` while nobody can tell. */
  getKeptCatalog: (request: object) => Promise<KeptCatalog>;
};

/** `open` follows the catalog's file; where that cannot be used it begins with the text that it is given, or throws. */
type Open<T> = (fallback?: string) => T;

// A catalog says where providers' keys are sent, and whoever steals a certificate or a login of the service can have
// one kept. So it is proven by the values of the credentials that it names, which such a thief does not have. It may
// name no others than the file that is refused does, and not only short ones: values of other variables and files can
// be guessed.

const credentialPattern = /\bcredential"?\s*:\s*\{?\s*"?(env|file)"?\s*:\s*["']?([^\s"',}]+)/g;
const leastSecretLength = 16;

/** The variables and files that a catalog names as credentials: `env OPENAI_API_KEY`. */
const credentialsOf = (text: string): string[] =>
  [...new Set([...text.matchAll(credentialPattern)].map(([, kind, name]) => `${kind} ${name}`))].toSorted();

function valueOf(credential: string, environment: NodeJS.ProcessEnv): string {
  const name = credential.slice(credential.indexOf(" ") + 1);
  if (credential.startsWith("env ")) return environment[name] ?? "";
  return existsSync(name) ? readFileSync(name, "utf8").trim() : "";
}

/** What shows other processes that a catalog comes from one that has the credentials which it names. */
export function catalogProof(content: string, environment: NodeJS.ProcessEnv): Buffer {
  const values = credentialsOf(content).map((credential) => [credential, valueOf(credential, environment)]);
  return createHmac("sha256", hash("sha256", JSON.stringify(values), "buffer"))
    .update(content)
    .digest();
}

/** Why a kept catalog is not used in the place of a file; undefined: it may be. */
function distrustOf(
  { content, proof }: KeptCatalog,
  fileText: string,
  environment: NodeJS.ProcessEnv,
): string | undefined {
  const own = new Set(credentialsOf(fileText));
  const named = credentialsOf(content);
  const foreign = named.filter((credential) => !own.has(credential));
  if (foreign.length > 0) return `it names credentials that the file does not: ${foreign.join(", ")}`;
  const expected = catalogProof(content, environment);
  const hasSecret = named.some((credential) => valueOf(credential, environment).length >= leastSecretLength);
  const isProven = hasSecret && proof.length === expected.length && timingSafeEqual(expected, proof);
  return isProven ? undefined : "it is not proven by the credentials here";
}

// Less than kubelet waits for a start; whoever keeps catalogs may be starting, too.
const maxTries = 30;
const retryMs = 1_000;

/**
 * Begins with the catalog's file. Where it cannot be used the service begins with the one that was taken last, so that
 * a mistake takes no capacity away; when there is none, or it cannot be used here, the file's error is thrown.
 */
export async function startCatalog<T>(
  open: Open<T>,
  keeper: Pick<CatalogKeeper, "getKeptCatalog">,
  { readText, environment, log }: { readText: () => string; environment: NodeJS.ProcessEnv; log: Logger },
  delayMs = retryMs,
): Promise<T> {
  try {
    return open();
  } catch (error) {
    log.error({ problems: wordsOf(error).split("\n") }, "catalog refused at the start, asking for the last good one");
    const kept = await readKept(keeper, log, delayMs);
    if (!kept) throw error;
    const distrust = distrustOf(kept, readText(), environment);
    if (distrust !== undefined) {
      const reason = `${wordsOf(error)}\nand the last good catalog is not used: ${distrust}`;
      throw new Error(reason, { cause: error });
    }
    const { version, hash, takenBy, takenAt } = kept;
    const catalog = openKept(open, kept, error);
    const at = takenAt && timestampDate(takenAt).toISOString();
    log.error({ version, hash, takenBy, takenAt: at }, "serving with the last good catalog, not with that of the file");
    return catalog;
  }
}

const keepEveryMs = 5_000;

/** What is in force of a catalog, whatever it follows; disposal waits for what is under way. */
export type OpenCatalog<T> = Pick<FollowedCatalog<T>, "current" | "isStale" | "file"> & AsyncDisposable;

/** Begins with the catalog's file as `startCatalog` does, and keeps what is taken of it from then on. */
export async function openFileCatalog<T>(
  open: Open<FollowedCatalog<T>>,
  keeper: CatalogKeeper,
  { path, environment, log }: { path: string; environment: NodeJS.ProcessEnv; log: Logger },
): Promise<OpenCatalog<T>> {
  await using resources = new AsyncDisposableStack();
  const readText = (): string => readFileSync(path, "utf8");
  const catalog = resources.use(await startCatalog(open, keeper, { readText, environment, log }));
  const keeping = createKeeping(keeper, catalog, { takenBy: hostname(), environment, log });
  resources.use(every(keepEveryMs, keeping, log));
  const owned = resources.move();
  const { current, isStale, file } = catalog;
  return { current, isStale, file, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function openKept<T>(open: Open<T>, { content }: KeptCatalog, refused: unknown): T {
  try {
    return open(content);
  } catch (error) {
    throw new Error(`${wordsOf(refused)}\nand the last good catalog cannot be used here:\n${wordsOf(error)}`, {
      cause: error,
    });
  }
}

async function readKept(
  keeper: Pick<CatalogKeeper, "getKeptCatalog">,
  log: Logger,
  delayMs: number,
): Promise<KeptCatalog | undefined> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await keeper.getKeptCatalog({});
    } catch (error) {
      const { code, message } = toServiceError(error);
      if (code !== "unavailable" || tries >= maxTries) {
        log.error({ code, reason: message }, "there is no last good catalog");
        return undefined;
      }
      await wait(delayMs);
    }
  }
}

/**
 * Keeps each catalog that this process takes from its file. To be called every few seconds: what could not be kept is
 * tried again.
 */
export function createKeeping(
  keeper: Pick<CatalogKeeper, "keepCatalog">,
  catalog: Pick<FollowedCatalog<unknown>, "file">,
  { takenBy, environment, log }: { takenBy: string; environment: NodeJS.ProcessEnv; log: Logger },
): () => Promise<void> {
  // A file that is refused from the start leaves the kept catalog in force.
  const { problem, contentHash } = catalog.file();
  let kept = problem === "" ? undefined : contentHash;
  let isFailing = false;
  return async () => {
    const { contentHash: hash, text } = catalog.file();
    if (hash === kept) return;
    try {
      const proof = catalogProof(text, environment);
      await keeper.keepCatalog({ content: text, proof, takenBy: takenBy.slice(0, 100) });
      kept = hash;
      isFailing = false;
    } catch (error) {
      if (!isFailing) log.warn({ err: error }, "failed to keep the catalog for processes that start");
      isFailing = true;
    }
  };
}

/** What operators are told while another catalog than the file's is in force. */
export function catalogProblem({
  isStale,
  file,
}: Pick<FollowedCatalog<unknown>, "isStale" | "file">): string | undefined {
  if (!isStale()) return undefined;
  const { contentHash, appliedVersion } = file();
  const newest = appliedVersion === undefined ? "the catalog file" : "the applied catalog";
  return `${newest} is refused; catalog ${contentHash.slice(0, 12)} is in use`;
}

/** What was wrong, as it was thrown. */
export const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
