import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Dialect, Tally } from "../dialects/dialect.ts";
import { noCounts } from "../dialects/dialect.ts";
import { CallFailure } from "../failures.ts";
import type { CallResponse } from "../http/exchange.ts";
import { statusOfFailure, streamHeaders } from "../http/respond.ts";
import type { LiveCall } from "../live-call.ts";
import type { ReplyFacts } from "../threads/messages.ts";
import type { Threads, ThreadSession } from "../threads/threads.ts";
import { SendError, type Answer } from "../upstream/send.ts";

/** An answer of which no more is kept, from its rest on. */
export type Oversized = {
  session: ThreadSession;
  rest: Answer;
  /** By what it is metered. */
  reading: ReplyFacts;
  /** Whether it may go to the caller as it comes; else it is read for the bill alone. */
  isPassed: boolean;
  /** Headers of the answer beside the usual ones. */
  headers: Record<string, string>;
  /** Most bytes of the rest. */
  maxBytes: number;
};

type To = { call: LiveCall; response: CallResponse; dialect: Dialect };

/** Keeps the upstream waiting for the caller and for the thread. */
function createPacing(rest: Answer, response: CallResponse, threads: Pick<Threads, "keepUp">) {
  let waits = 0;
  const wait = (): (() => void) => {
    waits += 1;
    if (waits === 1) rest.pause();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      waits -= 1;
      if (waits === 0) rest.resume();
    };
  };
  let isReading = true;
  const awaitReader = (): void => {
    if (!isReading || response.destroyed) return;
    isReading = false;
    const goOn = wait();
    const end = (): void => {
      response.off("drain", end).off("close", end);
      isReading = true;
      goOn();
    };
    // Of one who has left, the rest is read for the bill.
    response.once("drain", end).once("close", end);
  };
  let isTaken = true;
  const awaitThread = (): void => {
    if (!isTaken) return;
    let goOn: (() => void) | undefined;
    isTaken = threads.keepUp(() => {
      isTaken = true;
      goOn?.();
    });
    if (!isTaken) goOn = wait();
  };
  return { awaitReader, awaitThread };
}

/** Reads the rest into the meter, and passes it but for its last piece, which waits for the charge. */
function readRest(
  { session, rest, isPassed, maxBytes }: Oversized,
  response: CallResponse,
  threads: Pick<Threads, "keepUp">,
): Promise<Buffer | undefined> {
  const pacing = createPacing(rest, response, threads);
  let held: Buffer | undefined;
  let bytes = 0;
  return new Promise((resolve, reject) => {
    rest.consume({
      data: (chunk) => {
        // An empty piece is one that nobody drains.
        if (chunk.length === 0) return;
        bytes += chunk.length;
        if (bytes > maxBytes) {
          reject(new CallFailure({ name: "upstream_invalid", cause: `the answer exceeds ${maxBytes} bytes more` }));
          rest.abort();
          return;
        }
        session.add("answer", chunk, false);
        pacing.awaitThread();
        if (!isPassed || response.destroyed) return;
        if (held && !response.write(held)) pacing.awaitReader();
        held = chunk;
      },
      end: () => resolve(held),
      fail: (error) => reject(new SendError(error)),
    });
    rest.resume();
  });
}

async function tallyOf({ session, reading }: Oversized): Promise<Tally> {
  const told = await session.work<"tally">({ kind: "tally", reading });
  if (!told) throw new CallFailure({ name: "upstream_invalid", cause: "a large answer that cannot be read" });
  return told.hasNoCounts ? { ...told.tally, usage: noCounts } : told.tally;
}

/**
 * Gives an answer that is larger than any that is kept: its provider has made it and bills it, so it is charged by what
 * a thread has read of it on the way. Where its bytes are the caller's, it passes as it comes; else he is told that it
 * is too large.
 */
export async function deliverOversized(
  { call, response, dialect }: To,
  oversized: Oversized,
  threads: Pick<Threads, "keepUp">,
  settleCall: (endCause: EndCause) => void,
): Promise<void> {
  const { session, rest, isPassed, headers } = oversized;
  try {
    const begun = await session.work<"overflow">({ kind: "overflow", isWanted: isPassed });
    if (!begun) throw new CallFailure({ name: "upstream_invalid", cause: "a large answer that is no object" });
    if (isPassed && !response.destroyed) {
      response.writeHead(200, { ...streamHeaders(call.rid, "application/json"), ...headers });
      response.write(begun.kept);
    }
    const last = await readRest(oversized, response, threads);
    call.tally = await tallyOf(oversized);
    const tooLarge = { name: "answer_too_large" } as const;
    const status = isPassed ? 200 : statusOfFailure(response, tooLarge, dialect);
    call.httpStatus = response.destroyed ? 0 : status;
    settleCall(EndCause.COMPLETE);
    if (!isPassed) throw new CallFailure(tooLarge);
    if (!response.destroyed) response.end(last);
  } catch (thrown) {
    rest.abort();
    if (response.headersSent) response.destroy();
    throw thrown;
  }
}
