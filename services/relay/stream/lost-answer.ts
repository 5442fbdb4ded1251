import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { estimateOutputTokens } from "../charge/meter.ts";
import { emptyTally, type Dialect, type Envelope, type Tally } from "../dialects/dialect.ts";
import { CallFailure } from "../failures.ts";
import type { CallResponse } from "../http/exchange.ts";
import { statusOfFailure } from "../http/respond.ts";
import type { LiveCall } from "../live-call.ts";
import { isThreadEnd } from "../threads/threads.ts";

type Lost = {
  call: Pick<LiveCall, "tally" | "httpStatus" | "offered">;
  envelope: Envelope;
  dialect: Dialect;
  response: CallResponse;
};

/** What an answer that nobody has read is taken for: as much output as was held for it. */
function heldTally({ envelope, call }: Lost): Tally {
  const contentTokens = estimateOutputTokens(envelope, call.offered);
  return { ...emptyTally(), contentTokens, hasContent: true, hasFinish: true, isComplete: true };
}

/**
 * Charges a whole answer whose thread has ended, most likely because it took more memory than there is: its provider
 * has made it. Gives what the caller is told, so that nobody tries again what is charged; anything else as it is.
 */
export function chargeLost(lost: Lost, thrown: unknown, settleCall: (endCause: EndCause) => void): unknown {
  if (!isThreadEnd(thrown)) return thrown;
  const { call, response, dialect } = lost;
  const failure = { name: "answer_too_large", cause: thrown } as const;
  call.tally = heldTally(lost);
  call.httpStatus = statusOfFailure(response, failure, dialect);
  settleCall(EndCause.COMPLETE);
  return new CallFailure(failure);
}
