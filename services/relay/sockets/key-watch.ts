import { authorize, type Caller } from "../charge/admit.ts";
import { failureOf } from "../call.ts";
import type { QuotaSession } from "../charge/quota-session.ts";
import type { HeldSocket } from "./socket-end.ts";

/** A key by which sockets are open. */
type WatchedKey = { caller: Caller; sockets: Set<HeldSocket>; isAsked: boolean };

/**
 * Looks at the keys of open sockets, each key once however many sockets it has, so that one that was stopped ends them
 * without another turn.
 */
export class KeyWatch {
  private readonly keys = new Map<string, WatchedKey>();
  private readonly quota: QuotaSession;
  private readonly mostAtOnce: number;

  constructor(quota: QuotaSession, mostAtOnce: number) {
    this.quota = quota;
    this.mostAtOnce = mostAtOnce;
  }

  add(caller: Caller, socket: HeldSocket): void {
    const name = nameOf(caller);
    const watched = this.keys.get(name) ?? { caller, sockets: new Set(), isAsked: false };
    watched.sockets.add(socket);
    this.keys.set(name, watched);
  }

  remove(caller: Caller, socket: HeldSocket): void {
    const name = nameOf(caller);
    const watched = this.keys.get(name);
    watched?.sockets.delete(socket);
    if (watched?.sockets.size === 0) this.keys.delete(name);
  }

  /** Asks about the keys whose turn it is: all of them, or as many as are asked about at once. */
  look(): void {
    for (const [name, watched] of [...this.keys].slice(0, this.mostAtOnce)) {
      // Behind the others.
      this.keys.delete(name);
      this.keys.set(name, watched);
      if (!watched.isAsked) void this.ask(watched);
    }
  }

  /** What cannot be decided now is left to the next look. */
  private async ask(watched: WatchedKey): Promise<void> {
    watched.isAsked = true;
    try {
      // Without its leases, which hear of a stopped key a little later.
      await authorize({ settling: { quota: this.quota } }, { ...watched.caller, isAuthorized: true });
    } catch (thrown) {
      if (failureOf(thrown).name === "key_invalid") for (const socket of watched.sockets) socket.leave("key");
    }
    watched.isAsked = false;
  }
}

const nameOf = ({ keyHash }: Caller): string => Buffer.from(keyHash).toString("latin1");
