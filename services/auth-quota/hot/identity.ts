import { gather } from "./batch-loader.ts";
import type { Identity } from "../store/keys.ts";

/** Which key and account a secret stands for, by the SHA-256 of the secret in base64. */
export type Identities = {
  /** From memory: undefined when it must be looked up, null when no key has this hash. */
  recall: (keyHash: string) => Identity | null | undefined;
  /** From the database; rejects when that is not available. */
  lookUp: (keyHash: string) => Promise<Identity | null>;
  /** Forgets all: the database was restored, and may not have every key any more. */
  forget: () => void;
  /** Forgets one, of which there is no key any more. */
  forgetOne: (keyHash: string) => void;
};

export type IdentityLimits = { maxKnown: number; maxUnknown: number; unknownMs: number };

const defaultLimits: IdentityLimits = { maxKnown: 100_000, maxUnknown: 10_000, unknownMs: 5_000 };

/**
 * Remembers identities. A hash never changes its key nor a key its account, so what is known stays true until the
 * database is restored; whether the key may be used is asked elsewhere, every time. Hashes that no key has are
 * remembered for a few seconds, so that wrong keys do not reach the database at the rate at which they are tried.
 */
export function createIdentities(
  load: (keyHashes: string[]) => Promise<Map<string, Identity>>,
  limits: IdentityLimits = defaultLimits,
): Identities {
  const known = new Map<string, Identity>();
  const unknownUntilMs = new Map<string, number>();
  const loadOne = gather(load);

  const recall = (keyHash: string): Identity | null | undefined => {
    const identity = known.get(keyHash);
    if (identity) {
      // While there is room for as many again, it does not matter which was used last.
      if (known.size * 2 > limits.maxKnown) put(known, keyHash, identity, limits.maxKnown);
      return identity;
    }
    const untilMs = unknownUntilMs.get(keyHash);
    return untilMs !== undefined && performance.now() < untilMs ? null : undefined;
  };
  const lookUp = async (keyHash: string): Promise<Identity | null> => {
    const identity = await loadOne(keyHash);
    if (identity) put(known, keyHash, identity, limits.maxKnown);
    else put(unknownUntilMs, keyHash, performance.now() + limits.unknownMs, limits.maxUnknown);
    return identity ?? null;
  };
  const forget = (): void => {
    known.clear();
    unknownUntilMs.clear();
  };
  return { recall, lookUp, forget, forgetOne: (keyHash) => void known.delete(keyHash) };
}

// Maps keep the order of insertion: the first entry is the one that was not used for longest.
function put<V>(map: Map<string, V>, key: string, value: V, max: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= max) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}
