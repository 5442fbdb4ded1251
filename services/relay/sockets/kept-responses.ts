import type { BodyShare } from "../http/body-budget.ts";
import type { Made } from "../upstream/turn-socket.ts";

/** A response of a socket: its items behind those of the one that it continued. */
export type KeptResponse = {
  id: string;
  before: KeptResponse | undefined;
  /** What the caller sent for it and what it brought, as JSON values with commas between them. */
  items: Buffer;
  /** Where an upstream has it too, and can go on from it. */
  made: Made | undefined;
  /** How many stand on it: those that continued it, turns under way, and its name while it can be asked for. */
  uses: number;
};

export type KeepLimits = { maxBytes: number; maxResponses: number };

// The oldest are of use to callers who fork a conversation; each keeps what it continued.
const defaultLimits: KeepLimits = { maxBytes: 32 * 1024 * 1024, maxResponses: 64 };

// Of a response beside its items.
const bytesOfResponse = 300;

const sizeOf = ({ id, items }: KeptResponse): number => id.length * 2 + items.length + bytesOfResponse;

/**
 * The responses of one socket, so that a later turn names the one that it continues and sends only what is new. What is
 * not here any more, callers are told to send in full: the oldest go first, when there are too many, when they take too
 * many bytes, or when the account's share of the memory for them is spent.
 */
export class KeptResponses {
  private readonly byId = new Map<string, KeptResponse>();
  private readonly share: BodyShare;
  private readonly limits: KeepLimits;
  private held = 0;

  constructor(share: BodyShare, limits: KeepLimits = defaultLimits) {
    this.share = share;
    this.limits = limits;
  }

  get bytes(): number {
    return this.held;
  }

  /** A response to continue, which stays until it is let go. */
  take(id: string): KeptResponse | undefined {
    const kept = this.byId.get(id);
    if (kept) kept.uses += 1;
    return kept;
  }

  letGo(kept: KeptResponse | undefined): void {
    for (let last = kept; last; last = last.before) {
      last.uses -= 1;
      if (last.uses > 0) return;
      this.held -= sizeOf(last);
    }
  }

  keep(id: string, before: KeptResponse | undefined, items: Buffer, made?: Made): void {
    this.forget(id);
    const kept: KeptResponse = { id, before, items, made, uses: 1 };
    if (before) before.uses += 1;
    this.byId.set(id, kept);
    this.held += sizeOf(kept);
    this.fit();
  }

  clear(): void {
    for (const id of this.byId.keys()) this.forget(id);
    this.share.release();
  }

  private forget(id: string): void {
    const kept = this.byId.get(id);
    this.byId.delete(id);
    this.letGo(kept);
  }

  private fit(): void {
    const { maxBytes, maxResponses } = this.limits;
    const isOver = (): boolean => this.byId.size > maxResponses || this.held > maxBytes;
    for (const oldest of this.byId.keys()) {
      if (!isOver() && this.claim()) return;
      this.forget(oldest);
    }
    // What is left is in the hands of turns under way, and goes with them.
    this.claim();
  }

  private claim(): boolean {
    this.share.release();
    return this.share.claim(this.held);
  }
}

/** All items up to a response, the oldest first. */
export function itemsUpTo(kept: KeptResponse | undefined): Buffer[] {
  const items: Buffer[] = [];
  for (let one = kept; one; one = one.before) if (one.items.length > 0) items.push(one.items);
  return items.reverse();
}
