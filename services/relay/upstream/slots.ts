// An account gets another slot, or another place in the queue, while it has fewer than so many times what is free: one
// alone can take four fifths, two four ninths each, and whoever comes next always finds some.
const timesFree = 4;

type Waiter = { grant: () => void };

/** The slots of an upstream, shared between accounts, and the short queue for them. */
export type Slots = {
  taken: () => number;
  hasRoomFor: (account: string) => boolean;
  take: (account: string) => void;
  /** Gives a slot back; it goes to those who wait, one account after the other. */
  leave: (account: string) => void;
  /**
   * Waits for a slot: `grant` is called once there is room, and takes it. Gives what ends the wait; undefined when
   * there are too many who wait, of all accounts or of this one.
   */
  wait: (account: string, grant: () => void) => (() => void) | undefined;
};

/** Adds to a count by account; one that is back at 0 is forgotten. */
function add(counts: Map<string, number>, account: string, change: number): void {
  const count = (counts.get(account) ?? 0) + change;
  if (count === 0) counts.delete(account);
  else counts.set(account, count);
}

/** So many slots, and as many places in the queue. */
export function createSlots(most: number): Slots {
  const takenBy = new Map<string, number>();
  // In the order in which accounts have their turn.
  const queues = new Map<string, Waiter[]>();
  let taken = 0;
  let waiting = 0;
  const hasRoomFor = (account: string): boolean => (takenBy.get(account) ?? 0) < timesFree * (most - taken);
  const takeTurn = (): boolean => {
    for (const [account, queue] of queues) {
      if (!hasRoomFor(account)) continue;
      const waiter = queue.shift();
      queues.delete(account);
      if (queue.length > 0) queues.set(account, queue);
      waiting -= 1;
      waiter?.grant();
      return true;
    }
    return false;
  };
  return {
    taken: () => taken,
    hasRoomFor,
    take: (account) => {
      taken += 1;
      add(takenBy, account, 1);
    },
    leave: (account) => {
      taken -= 1;
      add(takenBy, account, -1);
      while (waiting > 0 && takeTurn());
    },
    wait: (account, grant) => {
      const queue = queues.get(account) ?? [];
      if (queue.length >= timesFree * (most - waiting)) return undefined;
      const waiter = { grant };
      queue.push(waiter);
      queues.set(account, queue);
      waiting += 1;
      return () => {
        const at = queue.indexOf(waiter);
        if (at < 0) return;
        queue.splice(at, 1);
        waiting -= 1;
        if (queue.length === 0) queues.delete(account);
      };
    },
  };
}
