import type { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import type { Relay } from "../../call.ts";
import type { Model } from "../../catalog/models.ts";
import type { LiveCall } from "../../live-call.ts";
import { guardStream } from "../../stream/guard.ts";
import type { HeldAhead } from "./held-ahead.ts";
import { endCall, type Reported } from "./responses.ts";

// What is held for at first; the guard asks for more as time passes.
const firstMs = 60_000;

/** A session that is priced by its time: one call, from the provider's yes to the end. */
export class SessionTime {
  private readonly relay: Relay;
  private readonly ahead: HeldAhead;
  private readonly reported: Reported;
  private call: LiveCall | undefined;
  private beganAtMs = performance.now();

  constructor(relay: Relay, ahead: HeldAhead, reported: Reported) {
    this.relay = relay;
    this.ahead = ahead;
    this.reported = reported;
  }

  static isPriced({ prices }: Model): boolean {
    return prices.mediaMs !== undefined;
  }

  static firstUnits(): Units {
    return { mediaMs: BigInt(firstMs) };
  }

  /** Begins the call that is held. Throws a CallFailure. */
  async begin(): Promise<void> {
    const call = await this.ahead.take();
    call.firstByteAtMs = Date.now();
    call.tally.hasContent = true;
    this.call = call;
    this.tick(performance.now());
  }

  /** Counts the time, and looks after the money for it. */
  tick(nowMs: number): void {
    if (!this.call) return;
    this.call.tally.counted.mediaMs = BigInt(Math.ceil(nowMs - this.beganAtMs));
    guardStream(this.relay.settling, this.call, nowMs);
  }

  end(endCause: EndCause): void {
    const { call } = this;
    if (!call) return;
    this.call = undefined;
    call.tally.counted.mediaMs = BigInt(Math.ceil(performance.now() - this.beganAtMs));
    endCall(this.relay, call, endCause, this.reported);
  }
}
