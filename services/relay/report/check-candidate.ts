import { Worker } from "node:worker_threads";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CheckCatalogResponseSchema } from "#proto/relay/v1/relay_pb.ts";
import type { Restriction } from "#shared/catalog/restrict.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { rememberPrices, type PriceVersions } from "../catalog/price-versions.ts";

/** What a thread needs to check a catalog. */
export type CandidateOrder = {
  text: string;
  /** Names of the environment variables that have a value. */
  set: ReadonlySet<string>;
  known: PriceVersions;
  offersVideos: boolean;
  /** What an applied catalog may not have; undefined where the file is followed. */
  restriction?: Restriction | undefined;
};

/** What it finds, in plain values, which alone pass between threads. */
export type CandidateVerdict = MessageInitShape<typeof CheckCatalogResponseSchema>;

export type CandidateCheckDeps = {
  inForce: () => Catalog;
  environment: NodeJS.ProcessEnv;
  offersVideos: () => boolean;
  restriction?: (() => Restriction | undefined) | undefined;
};

/** Checks a catalog that is not in force. */
export type CandidateCheck = (text: string) => Promise<CandidateVerdict>;

// As much as auth-quota keeps. Reading it takes a second, and some hundred bytes for each character.
const maxCharacters = 1_048_576;
const limits = { timeoutMs: 10_000, maxOldGenerationSizeMb: 512 };

/**
 * Checks catalogs one at a time, each in a thread of its own: reading one of hundreds of models takes so long that
 * streams would stand still, and happens too rarely for a thread to wait for it.
 */
export function createCandidateCheck(deps: CandidateCheckDeps): CandidateCheck {
  const { inForce, environment, offersVideos, restriction = () => undefined } = deps;
  const set = new Set(Object.keys(environment).filter((name) => environment[name] !== ""));
  let isChecking = false;
  return async (text) => {
    if (text.length > maxCharacters) {
      throw new ServiceError("invalid_argument", `text must have at most ${maxCharacters} characters`);
    }
    if (isChecking) throw new ServiceError("unavailable", "another catalog is being checked");
    isChecking = true;
    try {
      const known: PriceVersions = new Map();
      rememberPrices(inForce().models.values(), known);
      const order = { text, set, known, offersVideos: offersVideos(), restriction: restriction() };
      return await checkInThread(order);
    } finally {
      isChecking = false;
    }
  };
}

function checkInThread(order: CandidateOrder): Promise<CandidateVerdict> {
  const { timeoutMs, maxOldGenerationSizeMb } = limits;
  const thread = new Worker(new URL("check-thread.ts", import.meta.url), {
    name: "catalog check",
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb },
  });
  const verdict = new Promise<CandidateVerdict>((resolve, reject) => {
    const give = (words: string): void => reject(new ServiceError("invalid_argument", words));
    const timer = setTimeout(give, timeoutMs, "this catalog takes too long to read");
    thread.once("message", resolve);
    // Such as one whose aliases unfold into more than memory holds.
    thread.once("error", (error) => give(`this catalog cannot be read: ${error.message}`));
    thread.once("exit", () => {
      clearTimeout(timer);
      give("this catalog cannot be read");
    });
  });
  return verdict.finally(() => void thread.terminate());
}
