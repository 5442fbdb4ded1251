import type { UsageBucket } from "#shared/money/pricing.ts";
import type { AnswerFormat, AnswerSink, DeliveredBucket, ReadingContext, ToldUsage } from "./answer.ts";
import type { Tally, UpstreamError } from "./dialect.ts";
import { TallyFold } from "./fold-tally.ts";
import { eventsOf } from "./event-cursor.ts";
import { BrokenReplyError, foldReply, type Reply, type ReplyEvent, type ReplyPart, type ReplyUsage } from "./reply.ts";

/** How an answer is shown. */
export type ReplySink = {
  take: (event: ReplyEvent) => void;
  /** What is shown of the use, of the same tally that is charged. */
  usage: () => ReplyUsage | undefined;
  /** An error as callers may see it: the provider's own, or a reason why the answer cannot be read. */
  error: (error: UpstreamError) => UpstreamError;
  unreadable: (reason: string) => void;
};

/** Gives an answer as the events of reply.ts, of which nothing follows the finish or an error, and keeps its tally. */
export class ReplyShower implements AnswerSink {
  readonly isShown = true;
  readonly fold: TallyFold;
  private readonly showing: ReplySink;
  private isOver = false;

  constructor(fold: TallyFold, showing: ReplySink) {
    this.fold = fold;
    this.showing = showing;
  }

  content(tokens: number): void {
    this.fold.content(tokens);
  }

  show(part: ReplyPart): void {
    if (!this.isOver) this.showing.take(part);
  }

  usage(told: ToldUsage): void {
    this.fold.usage(told);
  }

  counted(bucket: UsageBucket, units: bigint): void {
    this.fold.counted(bucket, units);
  }

  delivered(bucket: DeliveredBucket, tokens: number): void {
    this.fold.delivered(bucket, tokens);
  }

  priceField(name: string, value: string): void {
    this.fold.priceField(name, value);
  }

  served(model: string | undefined, serviceTier?: string): void {
    this.fold.served(model, serviceTier);
  }

  ended(hasFinish: boolean, isEnding: boolean): void {
    this.fold.ended(hasFinish, isEnding);
  }

  markEnd(): void {
    this.fold.markEnd();
  }

  finish(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.showing.take({ kind: "finish", usage: this.showing.usage() });
  }

  error(error: UpstreamError): void {
    this.fold.error(error);
    if (this.isOver) return;
    this.isOver = true;
    this.showing.take({ kind: "error", error: this.showing.error(error) });
  }

  unreadable(reason: string): void {
    if (this.isOver) return;
    this.isOver = true;
    this.showing.unreadable(reason);
  }
}

/** The reply of events; undefined for one that cannot be shown. */
function replyOf(events: readonly ReplyEvent[]): Reply | undefined {
  try {
    return foldReply(events);
  } catch (error) {
    if (error instanceof BrokenReplyError) return undefined;
    throw error;
  }
}

export type ShownReply = { tally: Tally; reply: Reply | undefined };

/** Reads an answer once, to be charged and to be shown as a whole; `read` tells whether it is one of the format. */
function readShown(
  read: (sink: AnswerSink) => boolean,
  usageOf: (tally: Tally) => ReplyUsage | undefined,
): ShownReply | undefined {
  const fold = new TallyFold();
  const events: ReplyEvent[] = [];
  const shower = new ReplyShower(fold, {
    take: (event) => void events.push(event),
    usage: () => usageOf(fold.tally),
    error: (error) => error,
    unreadable: () => undefined,
  });
  return read(shower) ? { tally: fold.tally, reply: replyOf(events) } : undefined;
}

/** Reads an answer that is all there, whole or streamed. */
export type ReplyReader<Given> = (
  format: AnswerFormat,
  given: Given,
  context: ReadingContext,
  usageOf: (tally: Tally) => ReplyUsage | undefined,
) => ShownReply | undefined;

/**
 * Reads a whole answer once, to be charged and to be shown. Undefined when it is none of the format; `reply` is, when
 * it is one that cannot be shown.
 */
export const readWholeReply: ReplyReader<unknown> = ({ readReply }, body, context, usageOf) =>
  readShown((sink) => readReply(body, sink, context), usageOf);

/** The same of a stream that is all there. Raises EventTooLargeError. */
export const readStreamedReply: ReplyReader<Buffer> = ({ createStreamReader }, bytes, context, usageOf) =>
  readShown((sink) => {
    const reader = createStreamReader(sink, context);
    for (const event of eventsOf(bytes)) reader.read(event);
    reader.end();
    return true;
  }, usageOf);
