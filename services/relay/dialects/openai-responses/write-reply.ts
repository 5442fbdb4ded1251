import type { CallerRequest } from "../conversion.ts";
import { unfoldReply, type Reply } from "../reply.ts";
import { createResponseWriter } from "./write-events.ts";

const ignore = (): void => undefined;

/** A whole reply as a response: what the last event of its stream would hold. */
export function writeReply(reply: Reply, asked: CallerRequest): Record<string, unknown> {
  const writer = createResponseWriter(asked, ignore);
  for (const event of unfoldReply(reply)) writer.write(event);
  return writer.response();
}
