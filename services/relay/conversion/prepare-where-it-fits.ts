import type { IncomingHttpHeaders } from "node:http";
import type { Route } from "../catalog/choose.ts";
import { isHoldingState } from "../dialects/json/request-body.ts";
import type { LargeBody } from "../http/body.ts";
import { readingHeaders } from "../http/read.ts";
import type { BodyFacts } from "../threads/facts.ts";
import { largeBytes, manyValues, type ThreadSession } from "../threads/threads.ts";
import { createPreparation, isPassed, type Preparation, type PreparationInput } from "./prepare.ts";
import { createThreadPreparation } from "./prepare-in-thread.ts";

/** Whether a request is small, or goes out as it came without being read as a whole. */
function isQuick({ envelope: { body }, dialect }: PreparationInput, routes: readonly Route[]): boolean {
  const isLong = body.bytes.length > largeBytes;
  if (routes.every((route) => isPassed(route, dialect))) return !isLong || !isHoldingState(body);
  return !isLong && body.values < manyValues;
}

type PlacedBody = { body: Buffer | LargeBody; headers: IncomingHttpHeaders; openSession: () => ThreadSession };

/** Prepares a request in a thread where its bytes are there, as `facts` tell, or where preparing it would take long. */
export function prepareWhereItFits(
  preparing: PreparationInput,
  routes: readonly Route[],
  { body, headers, openSession }: PlacedBody,
  facts: BodyFacts | undefined,
): Preparation {
  if (!facts && isQuick(preparing, routes)) return createPreparation(preparing);
  const read = readingHeaders(headers);
  if (facts && !Buffer.isBuffer(body)) {
    const { length, isHoldingState: mustOpen } = facts;
    return createThreadPreparation({
      ...preparing,
      session: body.session,
      headers: read,
      length,
      isHoldingState: mustOpen,
    });
  }
  const { bytes } = preparing.envelope.body;
  const session = openSession();
  session.add("request", bytes, false);
  const mustOpen = isHoldingState(preparing.envelope.body);
  return createThreadPreparation({
    ...preparing,
    session,
    headers: read,
    length: bytes.length,
    isHoldingState: mustOpen,
  });
}
