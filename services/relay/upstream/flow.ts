/** Takes an answer's body, piece by piece, in the turn in which it arrives. */
export type Consumer = { data: (chunk: Buffer) => void; end: () => void; fail: (error: Error) => void };

/** The same consumer, of which each step is done when `take`, told of its bytes, does it. */
export const inSteps = (take: (bytes: number, step: () => void) => void, { data, end, fail }: Consumer): Consumer => ({
  data: (chunk) => take(chunk.length, () => data(chunk)),
  end: () => take(0, end),
  fail: (error) => take(0, () => fail(error)),
});

/** Sees each piece that waits for a consumer, then that nothing more will; true: it has seen enough. */
export type Peek = (piece: Buffer | undefined, isOver: boolean) => boolean;

/** The body of an answer on its way to whoever consumes it; what comes before somebody does is kept. */
export abstract class Flow {
  // The head resolves a promise, the body may follow in the same turn.
  private early: Buffer[] = [];
  private hasEnded = false;
  private failure: Error | undefined;
  private consumer: Consumer | undefined;
  private peeking: Peek | undefined;

  /** Shows what has come, and what comes, until it was enough or somebody consumes it. */
  peek(peeking: Peek): void {
    this.peeking = peeking;
    for (const piece of this.early) this.show(piece, false);
    if (this.hasEnded || this.failure) this.show(undefined, true);
  }

  private show(piece: Buffer | undefined, isOver: boolean): void {
    if (this.peeking?.(piece, isOver)) this.peeking = undefined;
  }

  /** Starts the flow; what came before is given at once. */
  consume(consumer: Consumer): void {
    const { early, failure } = this;
    this.early = [];
    this.peeking = undefined;
    this.consumer = consumer;
    for (const chunk of early) {
      consumer.data(chunk);
      // Aborting fails the answer at once, and the consumer has heard of it.
      if (this.failure !== failure) return;
    }
    if (failure) consumer.fail(failure);
    else if (this.hasEnded) consumer.end();
  }

  protected give(chunk: Buffer): void {
    if (this.consumer) return this.consumer.data(chunk);
    this.early.push(chunk);
    this.show(chunk, false);
  }

  protected finish(): void {
    this.hasEnded = true;
    this.consumer?.end();
    this.show(undefined, true);
  }

  protected break(error: Error): void {
    this.failure = error;
    this.consumer?.fail(error);
    this.show(undefined, true);
  }
}
