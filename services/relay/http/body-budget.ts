import type { Writable } from "node:stream";

/** What one body holds of the budget. */
export type BodyShare = {
  /** Asks for this many bytes in all; false, and nothing changes, when there is no room for them. */
  claim: (bytes: number) => boolean;
  /** Gives all of it back before the answer closes. */
  release: () => void;
};

/** Where the answer to a body is written. */
export type ResponseStream = Pick<Writable, "destroyed" | "once">;

/** Who sends a body. The account is "" until the key is known; a share goes by what is known when it claims. */
export type BodyOwner = { address: string; accountId: string };

/** How many bytes of bodies this process keeps in memory at once. */
export type BodyBudget = {
  /** Opens an empty share, which is given back when the answer closes: a body is kept until its call ends. */
  share: (answering: ResponseStream, owner: BodyOwner) => BodyShare;
  bytes: () => number;
};

// An account, and an address, gets more while it then holds at most so many times what nobody holds: one alone can take
// four fifths, and whoever comes next always finds some. All whose key is not known yet share a fifth.
const timesFree = 4;
const timesFreeOfStrangers = 1 / 4;
const strangers = "";

function add(sums: Map<string, number>, name: string, bytes: number): void {
  const sum = (sums.get(name) ?? 0) + bytes;
  if (sum === 0) sums.delete(name);
  else sums.set(name, sum);
}

/** A budget of `maxBytes`, shared by all calls of this process. */
export function createBodyBudget(maxBytes: number): BodyBudget {
  let total = 0;
  const byAccount = new Map<string, number>();
  const byAddress = new Map<string, number>();
  const mayHold = (account: string, address: string, more: number, moved: number): boolean => {
    const free = maxBytes - total - more;
    const times = account === strangers ? timesFreeOfStrangers : timesFree;
    const ofAccount = (byAccount.get(account) ?? 0) + moved + more;
    const ofAddress = (byAddress.get(address) ?? 0) + more;
    return ofAccount <= times * free && ofAddress <= timesFree * free;
  };
  const share = (answering: ResponseStream, owner: BodyOwner): BodyShare => {
    const { address } = owner;
    let held = 0;
    let account = strangers;
    const release = (): void => {
      total -= held;
      add(byAccount, account, -held);
      add(byAddress, address, -held);
      held = 0;
    };
    return {
      claim: (bytes) => {
        if (bytes <= held) return true;
        const more = bytes - held;
        const { accountId } = owner;
        // An answer that has closed will not close again.
        if (answering.destroyed || !mayHold(accountId, address, more, accountId === account ? 0 : held)) return false;
        if (held === 0) answering.once("close", release);
        add(byAccount, account, -held);
        add(byAccount, accountId, bytes);
        add(byAddress, address, more);
        total += more;
        account = accountId;
        held = bytes;
        return true;
      },
      release,
    };
  };
  return { share, bytes: () => total };
}
