import { createRid } from "#shared/money/rid.ts";
import { member, stringOf } from "../../dialects/dialect.ts";

type Open = { ownId: string; callersId: string | undefined; sinceMs: number; over: PromiseWithResolvers<void> };

/**
 * The response that a caller has asked for and that has not begun. Each has the hold of its own only when it begins, so
 * that no other is asked for meanwhile. It is asked for by an id of the relay's, because a caller could have any number
 * of events refused by the same one.
 */
export class Asked {
  private open: Open | undefined;
  private readonly onRefused: () => void;

  constructor(onRefused: () => void) {
    this.onRefused = onRefused;
  }

  get isOpen(): boolean {
    return this.open !== undefined;
  }

  /** Resolves when none is waited for. */
  async over(): Promise<void> {
    await this.open?.over.promise;
  }

  /** Gives the event as it goes to the provider. */
  begin(frame: string, callersId: string | undefined): string {
    const ownId = `event_${createRid()}`;
    this.open = { ownId, callersId, sinceMs: performance.now(), over: Promise.withResolvers() };
    return JSON.stringify({ ...(JSON.parse(frame) as object), event_id: ownId });
  }

  /** It has begun, or never will. */
  end(): void {
    this.open?.over.resolve();
    this.open = undefined;
  }

  /** A provider that answers nothing at all is not waited for. */
  check(nowMs: number, mostMs: number): void {
    if (this.open && nowMs - this.open.sinceMs > mostMs) this.end();
  }

  /** Reads an error: ends where it refuses the response. Gives it with its caller's id. */
  refuse(error: object): object {
    if (!this.open || stringOf(member(error, "event_id")) !== this.open.ownId) return error;
    const { callersId } = this.open;
    this.end();
    this.onRefused();
    return { ...error, event_id: callersId ?? null };
  }
}
