import { namelessError, type PassPolicy } from "../answer.ts";
import { isUntouched, member, stringOf, type Cleaner, type Envelope, type UpstreamError } from "../dialect.ts";
import type { StreamEvent } from "../sse.ts";
import { typeOfEvent } from "./read-stream.ts";

/** What is needed to write an event of the stream's own kind behind it. */
type Place = { response: Record<string, unknown>; sequence: number; isFailedTold: boolean; error: UpstreamError };

const writeEvent = (event: Record<string, unknown>): string =>
  `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`;

/** The event of a response that failed, as callers may see it. */
function failedEvent({ response, sequence }: Place, { message, code = "server_error" }: UpstreamError): string {
  const failed = { object: "response", ...response, status: "failed", error: { code, message } };
  return writeEvent({ type: "response.failed", sequence_number: sequence, response: failed });
}

function readPlace(event: unknown, place: Place): void {
  const sequence = member(event, "sequence_number");
  place.sequence = typeof sequence === "number" ? sequence : place.sequence + 1;
  const response = member(event, "response");
  if (typeof response === "object" && response !== null) place.response = response as Record<string, unknown>;
  place.isFailedTold ||= stringOf(member(event, "type")) === "response.failed";
}

/**
 * How a Responses stream passes. An upstream error partway always ends in response.failed, also where the upstream
 * leaves that out.
 */
export function createPassing(_envelope: Envelope, clean: Cleaner): PassPolicy {
  const place: Place = { response: {}, sequence: -1, isFailedTold: false, error: namelessError };
  return {
    note: ({ json }: StreamEvent) => {
      if (typeOfEvent(json) !== "") readPlace(json, place);
    },
    onError: ({ json }, error) => {
      place.error = error;
      const cleaned = clean(error);
      if (isUntouched(error, cleaned)) return "pass";
      if (member(json, "type") === "response.failed") return Buffer.from(failedEvent(place, cleaned));
      const { message, code = "server_error", param = null } = cleaned;
      return Buffer.from(writeEvent({ type: "error", code, message, param, sequence_number: place.sequence }));
    },
    end: ({ isFailed }) => {
      if (!isFailed || place.isFailedTold) return "";
      return failedEvent({ ...place, sequence: place.sequence + 1 }, clean(place.error));
    },
  };
}
