import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Relay } from "../../call.ts";
import type { Model } from "../../catalog/models.ts";
import { member, stringOf } from "../../dialects/dialect.ts";
import { readUsage } from "../../dialects/openai-transcriptions/usage.ts";
import type { LiveCall } from "../../live-call.ts";
import { HeldAhead, type HeldFor, type OnCut } from "./held-ahead.ts";
import { endCall, type Reported } from "./responses.ts";
import { transcriptUnits, type SessionContext } from "./session-context.ts";

/** What a model of its own writes down of what is heard: each item a call of that model. */
export class Transcripts {
  private readonly relay: Relay;
  private readonly context: SessionContext;
  private readonly reported: Reported;
  private ahead: HeldAhead | undefined;

  constructor(relay: Relay, context: SessionContext, reported: Reported) {
    this.relay = relay;
    this.context = context;
    this.reported = reported;
  }

  /** Holds the next call of this model from now on; undefined: nothing is written down. Throws a CallFailure. */
  async use(heldFor: HeldFor | undefined, onCut: OnCut): Promise<void> {
    this.ahead?.end();
    this.ahead = heldFor && new HeldAhead(this.relay, heldFor);
    if (this.ahead) this.ahead.onCut = onCut;
    await this.ahead?.prepare();
  }

  /** Throws a CallFailure where the next one may cost more than there is. */
  async grow(): Promise<void> {
    await this.ahead?.grow();
  }

  /** Charges what was written down, before its caller has it. Throws a CallFailure. */
  async completed(itemId: string, usage: unknown): Promise<void> {
    const tokens = this.context.written(itemId);
    if (!this.ahead) return;
    const call = await this.ahead.take();
    call.tally.usage = readUsage(usage);
    call.tally.toldTokens = undefined;
    this.end(call, tokens, EndCause.COMPLETE);
  }

  /** Writing an item down failed, for which nobody bills. */
  failed(itemId: string): void {
    this.context.written(itemId);
  }

  /** Holds the next call. Throws a CallFailure. */
  async prepare(): Promise<void> {
    await this.ahead?.prepare();
  }

  /** Charges what may still be written down behind a session that is over, and gives back the rest. */
  async close(): Promise<void> {
    const { ahead } = this;
    const left = this.context.unwrittenItems;
    if (ahead && left.length > 0) {
      const tokens = left.reduce((sum, id) => sum + this.context.written(id), 0);
      // Without money for it, it is the operator's loss, as with any answer that outgrows its hold.
      const call = await ahead.take().catch(() => undefined);
      if (call) {
        call.isOrphan = true;
        this.end(call, tokens, EndCause.CLIENT_GONE);
      }
    }
    ahead?.end();
  }

  private end(call: LiveCall, tokens: number, endCause: EndCause): void {
    const { inputTokens = 0n, ...units } = transcriptUnits(tokens);
    call.requested = { inputTokens: Number(inputTokens), units, priceFields: {} };
    call.tally.hasContent = true;
    call.tally.hasFinish = true;
    endCall(this.relay, call, endCause, this.reported);
  }
}

/** The upstream's name of a model that writes down what is heard, where it runs at the same upstream. */
export function transcriberAt(model: Model | undefined, upstream: string): string | undefined {
  if (!model?.dialects.has("openai-transcriptions")) return undefined;
  return model.routes.find((route) => route.upstream.name === upstream)?.model;
}

/** The id of the item that an event is about. */
export const itemIdOf = (event: unknown): string => stringOf(member(event, "item_id")) ?? "";
