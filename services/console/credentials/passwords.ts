import { hash, parseOptions, verify } from "@node-rs/argon2";
import { ServiceError } from "#shared/process/errors.ts";

/** What one hash costs: KiB of memory, and passes over it. */
export type PasswordCost = { memoryKib: number; passes: number };

export type Passwords = {
  /** An encoded Argon2id hash with a salt of its own. Rejects with `unavailable` when too many wait. */
  hash: (password: string) => Promise<string>;
  /** Whether the password is right. Without a hash the same work is done for nothing, and the answer is false. */
  verify: (encoded: string | undefined, password: string) => Promise<boolean>;
  /** Whether a hash was made at another cost than now. */
  isOutdated: (encoded: string) => boolean;
};

// libuv computes four at a time; the rest waits here, and no more than that: each has a caller who waits, too.
const atOnce = 4;
const maxWaiting = 32;

/** Argon2id, bounded: at most four hashes at once (their memory), and 32 that wait. */
export async function createPasswords({ memoryKib, passes }: PasswordCost): Promise<Passwords> {
  const options = { memoryCost: memoryKib, timeCost: passes, parallelism: 1 };
  const ofNobody = await hash("nobody has this password", options);
  const inTurn = createTurns();
  return {
    hash: (password) => inTurn(() => hash(password, options)),
    verify: (encoded, password) =>
      inTurn(async () => {
        const isRight = await verify(encoded ?? ofNobody, password);
        return isRight && encoded !== undefined;
      }),
    isOutdated: (encoded) => {
      const made = parseOptions(encoded);
      return made.memoryCost !== memoryKib || made.timeCost !== passes;
    },
  };
}

function createTurns(): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= atOnce) {
      if (waiting.length >= maxWaiting) throw new ServiceError("unavailable", "too many sign-ins at once");
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else running += 1;
    try {
      return await work();
    } finally {
      // The place is handed on as it is, so that nobody who comes just now takes it.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
