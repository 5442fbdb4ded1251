import type { Writable } from "node:stream";

/** What one body holds of the budget. */
export type BodyShare = {
  /** Asks for this many bytes in all; false, and nothing changes, when the budget has no room for them. */
  claim: (bytes: number) => boolean;
  /** Gives all of it back before the answer closes. */
  release: () => void;
};

/** Where the answer to a body is written. */
export type Answering = Pick<Writable, "destroyed" | "once">;

/** How many bytes of large bodies this process keeps in memory at once. */
export type BodyBudget = {
  /** Opens an empty share, which is given back when the answer closes: a body is kept until its call ends. */
  share: (answering: Answering) => BodyShare;
  bytes: () => number;
};

/** A budget of `maxBytes`, shared by all calls of this process. */
export function createBodyBudget(maxBytes: number): BodyBudget {
  let total = 0;
  const share = (answering: Answering): BodyShare => {
    let held = 0;
    const release = (): void => {
      total -= held;
      held = 0;
    };
    return {
      claim: (bytes) => {
        if (bytes <= held) return true;
        // An answer that has closed will not close again.
        if (answering.destroyed || total + bytes - held > maxBytes) return false;
        if (held === 0) answering.once("close", release);
        total += bytes - held;
        held = bytes;
        return true;
      },
      release,
    };
  };
  return { share, bytes: () => total };
}
