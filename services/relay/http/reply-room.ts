import { createActiveSet, type ActiveMember } from "#shared/process/active-set.ts";

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
const readingMs = 30_000;

type Held = ActiveMember & {
  accountId: string;
  bytes: number;
  /** How many of these are within the room. */
  roomBytes: number;
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
  private readonly reading = createActiveSet<Held>();
  private readonly byAccount = new Map<string, number>();
  private roomBytes = 0;
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
    if (this.beyond !== held && !this.hasRoom(held)) {
      if (this.beyond) return false;
      this.beyond = held;
    }
    this.grant(held);
    return true;
  }

  release(held: Held): void {
    this.waiting.delete(held);
    this.reading.delete(held);
    if (this.beyond === held) this.beyond = undefined;
    this.count(held.accountId, -held.roomBytes);
    this.total -= held.bytes;
    held.bytes = held.roomBytes = 0;
    held.onRoom = held.hangUp = nothing;
    for (const next of this.waiting) if (this.hasRoom(next)) this.goOn(next);
    const first = this.poorest();
    if (this.beyond || !first) return;
    this.beyond = first;
    this.goOn(first);
  }

  awaitReader(held: Held): void {
    if (held.bytes > 0) this.reading.add(held);
  }

  /** Of those who have had their time, the slowest of the account that holds the most. */
  slowest(nowMs: number): Held | undefined {
    let found: Held | undefined;
    for (const held of this.reading) {
      if (nowMs - held.sinceMs < readingMs) continue;
      const more = found ? this.bytesOf(held.accountId) - this.bytesOf(found.accountId) : 1;
      if (!found || more > 0 || (more === 0 && held.sinceMs < found.sinceMs)) found = held;
    }
    return found;
  }

  private bytesOf(accountId: string): number {
    return this.byAccount.get(accountId) ?? 0;
  }

  private hasRoom({ accountId, bytes, wantedBytes }: Held): boolean {
    const more = wantedBytes - bytes;
    return this.bytesOf(accountId) + more <= timesFree * (this.maxBytes - this.roomBytes - more);
  }

  /** Of those who wait, the first of the account that holds the least: many of one account keep nobody else waiting. */
  private poorest(): Held | undefined {
    let found: Held | undefined;
    for (const held of this.waiting)
      if (!found || this.bytesOf(held.accountId) < this.bytesOf(found.accountId)) found = held;
    return found;
  }

  private goOn(held: Held): void {
    this.waiting.delete(held);
    this.grant(held);
    held.onRoom();
  }

  /** What goes beyond the room takes none of it from others. */
  private grant(held: Held): void {
    const more = held.wantedBytes - held.bytes;
    this.total += more;
    held.bytes += more;
    if (this.beyond === held) return;
    held.roomBytes += more;
    this.count(held.accountId, more);
  }

  private count(accountId: string, more: number): void {
    const bytes = this.bytesOf(accountId) + more;
    if (bytes === 0) this.byAccount.delete(accountId);
    else this.byAccount.set(accountId, bytes);
    this.roomBytes += more;
  }
}

/** Room for some answers of at most `maxReplyBytes`. */
export function createReplyRoom(maxReplyBytes: number): ReplyRoom {
  const room = new Room(largestAtOnce * maxReplyBytes);
  const open = (accountId: string): ReplyPlace => {
    const held: Held = {
      activeIndex: -1,
      accountId,
      bytes: 0,
      roomBytes: 0,
      wantedBytes: 0,
      onRoom: nothing,
      hangUp: nothing,
      sinceMs: 0,
    };
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
