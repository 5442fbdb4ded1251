import { setTimeout as wait } from "node:timers/promises";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import type { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";
import { createRid } from "#shared/money/rid.ts";
import type { Relay } from "../../call.ts";
import { beginTimes } from "../../call-times.ts";
import type { Route } from "../../catalog/choose.ts";
import type { Model } from "../../catalog/models.ts";
import { admitAtPrice, type Caller } from "../../charge/admit.ts";
import { pricedOnly } from "../../charge/meter.ts";
import { release } from "../../charge/settle.ts";
import { CallFailure } from "../../failures.ts";
import { dialects } from "../../dialects/index.ts";
import { beginLiveCall, type LiveCall } from "../../live-call.ts";

const { path: endpoint } = dialects["openai-realtime"];

/** For whom and where calls of one kind are held, and what the next one may use. */
export type HeldFor = { caller: Caller; model: Model; route: Route; next: () => Units };

export type OnCut = (endCause: EndCause) => void;

// Each growth is by a quarter at least, so that few are asked for however fast a caller sends.
const growAtShare = 1.25;
const maxUndecidedMs = 30_000;
const askAgainMs = 500;

/**
 * A session's next call of one model, held before it begins: a provider answers when it likes, and whatever it does is
 * held for.
 */
export class HeldAhead {
  private readonly relay: Relay;
  private readonly heldFor: HeldFor;
  /** Ends the session from outside: the guard when money runs out, the drain when time does. */
  onCut: OnCut = () => undefined;
  private ready: LiveCall | undefined;
  private coming: Promise<void> | undefined;
  private isOver = false;

  constructor(relay: Relay, heldFor: HeldFor) {
    this.relay = relay;
    this.heldFor = heldFor;
  }

  /** Holds the next call, unless one is held. Throws a CallFailure. */
  async prepare(): Promise<void> {
    if (this.ready || this.isOver) return;
    this.coming ??= this.hold().finally(() => (this.coming = undefined));
    await this.coming;
  }

  /** Gives the call that is held, or holds one. Throws a CallFailure. */
  async take(): Promise<LiveCall> {
    while (!this.ready) {
      if (this.isOver) throw new CallFailure({ name: "service_unavailable", cause: "the session is over" });
      await this.prepare();
    }
    const call = this.ready;
    this.ready = undefined;
    call.startedAtMs = Date.now();
    const nowMs = performance.now();
    Object.assign(call.times, { receivedAt: nowMs, reservedAt: nowMs, sentAt: nowMs });
    call.checkpointAtMs = nowMs;
    call.spooledAtMs = nowMs;
    return call;
  }

  /** Another upstream than the first has taken the session. */
  moveTo(route: Route): void {
    this.heldFor.route = route;
    if (this.ready) this.assign(this.ready, route);
  }

  /** Asks for more where the next call may cost more than is held for it. Throws a CallFailure when there is none. */
  async grow(usage: Units = this.heldFor.next()): Promise<void> {
    const { ready: call } = this;
    if (!call || call.isExtending) return;
    const wanted = this.priceOf(usage);
    if (Number(wanted) <= Number(call.heldNanos) * growAtShare) return;
    call.isExtending = true;
    try {
      call.heldNanos = await this.extended(call, wanted);
    } finally {
      call.isExtending = false;
    }
  }

  /** What is held then. Where nothing can be decided it waits, as a stream does: nobody owes more meanwhile. */
  private async extended({ rid, accountId }: LiveCall, totalNanos: bigint): Promise<bigint> {
    const untilMs = performance.now() + maxUndecidedMs;
    for (;;) {
      const value = { rid, totalNanos, leastNanos: totalNanos, accountId };
      const { verdict, heldNanos } = await this.relay.settling.quota.ask({ operation: { case: "extend", value } });
      if (verdict === Verdict.OK) return heldNanos;
      if (verdict !== Verdict.UNAVAILABLE) throw new CallFailure({ name: "balance" });
      if (this.isOver || performance.now() > untilMs) {
        throw new CallFailure({ name: "service_unavailable", cause: "no answer about a larger hold" });
      }
      await wait(askAgainMs);
    }
  }

  /** Gives back what no call has used. */
  end(): void {
    this.isOver = true;
    const { ready } = this;
    this.ready = undefined;
    if (ready) this.free(ready);
  }

  private free(call: LiveCall): void {
    this.relay.live.delete(call);
    release(this.relay.settling, call);
  }

  private assign(call: LiveCall, { upstream, model }: Route): void {
    call.upstream = upstream.name;
    call.upstreamModel = model;
  }

  private priceOf(usage: Units): bigint {
    const { prices } = this.heldFor.model;
    const nanos = costNanos(pricedOnly(usage, prices), prices);
    return nanos < maxAccountNanos ? nanos : maxAccountNanos;
  }

  private async hold(): Promise<void> {
    const { caller, model, route, next } = this.heldFor;
    const { settling, catalog, live } = this.relay;
    const { quota } = settling;
    const rid = createRid();
    const startedAtMs = Date.now();
    const times = beginTimes(performance.now());
    const wanted = { rid, model: model.id, estimateNanos: this.priceOf(next()), traceparent: "" };
    const hold = await admitAtPrice(quota, caller, wanted);
    times.reservedAt = performance.now();
    const call = beginLiveCall({
      ...hold,
      rid,
      endpoint,
      offered: model,
      model,
      models: catalog.current().models,
      isStream: true,
      requested: { inputTokens: 0, units: {}, priceFields: {} },
      startedAtMs,
      times,
      trace: undefined,
    });
    this.assign(call, route);
    call.httpStatus = 200;
    call.cut = (endCause) => this.onCut(endCause);
    live.add(call);
    if (this.isOver) this.free(call);
    else this.ready = call;
  }
}
