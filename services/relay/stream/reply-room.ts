/** The memory of one answer that comes whole, from its first bytes until its caller has read it. */
export type ReplyPlace = {
  readonly heldBytes: number;
  /** Asks for this many bytes in all. Where there is no room, `onRoom` is called as soon as there is. */
  claim: (bytes: number, onRoom: () => void) => boolean;
  /** Only its caller keeps it there from now on, and `hangUp` breaks the connection to him. */
  awaitReader: (hangUp: () => void, nowMs?: number) => void;
  release: () => void;
};

/** How many bytes of large answers this process keeps in memory at once. */
export type ReplyRoom = {
  open: (accountId: string) => ReplyPlace;
  /** While others wait for room: breaks off one answer that its caller has been reading for long. */
  makeRoom: (nowMs?: number) => void;
  bytes: () => number;
  /** Answers that wait for room. */
  waiting: () => number;
};

/** How many of the largest answers there is room for. */
const largestAtOnce = 4;
// As for bodies: one account alone can take four fifths, and whoever comes next always finds some.
const timesFree = 4;
const readingMs = 60_000;

type Held = {
  accountId: string;
  bytes: number;
  wantedBytes: number;
  onRoom: () => void;
  hangUp: () => void;
  /** Since when its caller is reading it. */
  sinceMs: number;
};

const nothing = (): void => undefined;

class Room {
  total = 0;
  readonly waiting = new Set<Held>();
  private readonly reading = new Set<Held>();
  private readonly byAccount = new Map<string, number>();
  /**
   * The one answer that may go on where there is no room for it. Without one, answers that have come half would wait
   * for each other for ever.
   */
  private beyond: Held | undefined;
  private readonly maxBytes: number;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  claim(held: Held): boolean {
    const more = held.wantedBytes - held.bytes;
    const free = this.maxBytes - this.total - more;
    if (this.bytesOf(held.accountId) + more > timesFree * free) {
      if (this.beyond && this.beyond !== held) return false;
      this.beyond = held;
    }
    this.change(held, more);
    return true;
  }

  release(held: Held): void {
    this.waiting.delete(held);
    this.reading.delete(held);
    if (this.beyond === held) this.beyond = undefined;
    this.change(held, -held.bytes);
    for (const next of this.waiting) {
      if (!this.claim(next)) continue;
      this.waiting.delete(next);
      next.onRoom();
    }
  }

  awaitReader(held: Held): void {
    if (held.bytes > 0) this.reading.add(held);
  }

  /** Of those who have had their minute, the first of the account that holds the most. */
  slowest(nowMs: number): Held | undefined {
    let found: Held | undefined;
    for (const held of this.reading) {
      if (nowMs - held.sinceMs < readingMs) continue;
      if (!found || this.bytesOf(held.accountId) > this.bytesOf(found.accountId)) found = held;
    }
    return found;
  }

  private bytesOf(accountId: string): number {
    return this.byAccount.get(accountId) ?? 0;
  }

  private change(held: Held, bytes: number): void {
    const ofAccount = this.bytesOf(held.accountId) + bytes;
    if (ofAccount === 0) this.byAccount.delete(held.accountId);
    else this.byAccount.set(held.accountId, ofAccount);
    this.total += bytes;
    held.bytes += bytes;
  }
}

/** Room for some answers of at most `maxReplyBytes`. */
export function createReplyRoom(maxReplyBytes: number): ReplyRoom {
  const room = new Room(largestAtOnce * maxReplyBytes);
  const open = (accountId: string): ReplyPlace => {
    const held: Held = { accountId, bytes: 0, wantedBytes: 0, onRoom: nothing, hangUp: nothing, sinceMs: 0 };
    return {
      get heldBytes() {
        return held.bytes;
      },
      claim: (bytes, onRoom) => {
        Object.assign(held, { wantedBytes: bytes, onRoom });
        if (!room.waiting.has(held) && room.claim(held)) return true;
        room.waiting.add(held);
        return false;
      },
      awaitReader: (hangUp, nowMs = performance.now()) => {
        Object.assign(held, { hangUp, sinceMs: nowMs });
        room.awaitReader(held);
      },
      release: () => room.release(held),
    };
  };
  return {
    open,
    makeRoom: (nowMs = performance.now()) => {
      if (room.waiting.size > 0) room.slowest(nowMs)?.hangUp();
    },
    bytes: () => room.total,
    waiting: () => room.waiting.size,
  };
}
