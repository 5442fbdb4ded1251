import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { renewLease } from "../store/submissions.ts";

/** The right to send a submission, renewed until disposal. */
export type Lease = AsyncDisposable & {
  /** Whether it holds for at least half of its time from now, by this process's own clock. */
  isFresh: () => boolean;
  /** Renews it for another upstream; false when the submission is not this process's any more. */
  moveTo: (upstream: string) => Promise<boolean>;
};

type LeaseOptions = { pool: Pool; log: Logger; rid: string; upstream: string; leaseMs: number };

/**
 * Holds the lease of an intent that was just written. `sinceMs` is performance.now() of before the writing: PostgreSQL
 * counts from later on, so that by this count the lease ends early and never late.
 */
export function holdLease({ pool, log, rid, upstream, leaseMs }: LeaseOptions, sinceMs: number): Lease {
  let confirmedAtMs = sinceMs;
  let asked = upstream;
  const renew = async (): Promise<boolean> => {
    const startedAtMs = performance.now();
    const isOurs = await renewLease(pool, { rid, upstream: asked, leaseMs });
    if (isOurs) confirmedAtMs = startedAtMs;
    return isOurs;
  };
  const renewals = every(leaseMs / 4, async () => void (await renew()), log);
  return {
    isFresh: () => performance.now() - confirmedAtMs < leaseMs / 2,
    moveTo: (next) => {
      asked = next;
      return renew();
    },
    [Symbol.asyncDispose]: () => renewals[Symbol.asyncDispose](),
  };
}
