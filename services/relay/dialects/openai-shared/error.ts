import type { PassPolicy } from "../answer.ts";
import { isUntouched, member, stringOf, type Cleaner, type Refusal, type UpstreamError } from "../dialect.ts";

/**
 * Format A body of the API spec: `{error: {message, type, param, code}}`; passed errors carry the upstream's type and
 * param.
 */
export function writeError({ message, upstreamType = "api_error", code, param = "" }: Refusal): string {
  return JSON.stringify({ error: { message, type: upstreamType, param, code } });
}

/** The field that an error names, if any. */
export function paramOf(error: unknown): { param?: string } {
  const param = stringOf(member(error, "param"));
  return param ? { param } : {};
}

/** Reads `{error: {message, type, param, code}}`; some compatible servers send `error` as a string. */
export function readError(body: unknown): UpstreamError | undefined {
  const error = member(body, "error");
  const message = stringOf(error) ?? stringOf(member(error, "message"));
  if (message === undefined) return undefined;
  const code = member(error, "code");
  return {
    message,
    type: stringOf(member(error, "type")),
    code: stringOf(code) ?? (typeof code === "number" ? String(code) : undefined),
    ...paramOf(error),
  };
}

/** A cleaned error as an event of a stream. */
function writeEvent({ message, type = "api_error", code = "server_error", param = "" }: UpstreamError): Buffer {
  return Buffer.from(`data: ${JSON.stringify({ error: { message, type, param, code } })}\n\n`);
}

/** Lets errors within a stream pass as callers may see them; their very bytes when there is nothing to take out. */
export function passErrors(clean: Cleaner): PassPolicy {
  return {
    onError: (_event, error) => {
      const cleaned = clean(error);
      return isUntouched(error, cleaned) ? "pass" : writeEvent(cleaned);
    },
  };
}
