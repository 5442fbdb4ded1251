import { member, stringOf, type Refusal, type UpstreamError } from "../dialect.ts";
import { readPlainError } from "../plain-error.ts";

/** Format B body of the API spec: `{type: 'error', error: {type, message}}`; a code of its own stands in `details`. */
export function writeError({ message, type, errorCode }: Refusal): string {
  const details = errorCode === undefined ? {} : { details: { error_code: errorCode } };
  return JSON.stringify({ type: "error", error: { type, message, ...details } });
}

/** Reads `{type: 'error', error: {type, message}}`, or what compatible servers send instead. */
export function readError(body: unknown): UpstreamError | undefined {
  const error = member(body, "error");
  const message = stringOf(member(error, "message"));
  if (message === undefined) return readPlainError(body);
  return { message, type: stringOf(member(error, "type")), code: undefined };
}
