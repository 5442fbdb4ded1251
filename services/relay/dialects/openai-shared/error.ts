import type { PassPolicy } from "../answer.ts";
import { isUntouched, member, type Cleaner, type Refusal, type UpstreamError } from "../dialect.ts";
import { readBaseError } from "../base-error.ts";
import { readGoogleError } from "../google-error.ts";
import { readPlainError } from "../plain-error.ts";

/**
 * Format A body of the API spec: `{error: {message, type, param, code}}`; passed errors carry the upstream's type and
 * param.
 */
export function writeError({ message, upstreamType = "api_error", code, param = "" }: Refusal): string {
  return JSON.stringify({ error: { message, type: upstreamType, param, code } });
}

// Mistral, and vLLM before 2026, send the error without anything around it.
const isBare = (body: unknown): boolean => member(body, "object") === "error";

/** Whether an event of a stream is an error; Google's chat endpoint sends its own in a list. */
export const isError = (json: unknown): boolean =>
  Boolean(member(Array.isArray(json) ? json[0] : json, "error")) || isBare(json) || readBaseError(json) !== undefined;

/** Reads `{error: {message, type, param, code}}`, or what Google's chat endpoint and others send instead. */
export function readError(body: unknown): UpstreamError | undefined {
  return Array.isArray(body) ? readGoogleError(body) : readPlainError(body);
}

/** A cleaned error as an event of a stream. */
function writeEvent({ message, type = "api_error", code = "server_error", param = "" }: UpstreamError): Buffer {
  return Buffer.from(`data: ${JSON.stringify({ error: { message, type, param, code } })}\n\n`);
}

/** Lets errors within a stream pass as callers may see them; their very bytes when there is nothing to take out. */
export function passErrors(clean: Cleaner): PassPolicy {
  return {
    onError: ({ json }, error) => {
      const cleaned = clean(error);
      const isOwn = Boolean(member(json, "error"));
      return isOwn && isUntouched(error, cleaned) ? "pass" : writeEvent(cleaned);
    },
  };
}
