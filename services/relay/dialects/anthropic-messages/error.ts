import { member, stringOf, type Refusal, type UpstreamError } from "../dialect.ts";
import { readPlainError } from "../plain-error.ts";

/**
 * Format B body of the API spec: `{type: 'error', error: {type, message}}`; codes of the format's own stand in
 * `details`, by which official clients choose the class of an error (@anthropic-ai/sdk 1.14, core/error-classes).
 */
export function writeError({ message, type, details }: Refusal): string {
  return JSON.stringify({ type: "error", error: { type, message, ...(details && { details }) } });
}

/** Reads `{type: 'error', error: {type, message, details}}`, or what compatible servers send instead. */
export function readError(body: unknown): UpstreamError | undefined {
  const error = member(body, "error");
  const message = stringOf(member(error, "message"));
  if (message === undefined) return readPlainError(body);
  const details = member(error, "details");
  const code = stringOf(member(details, "error_code"));
  return {
    message,
    type: stringOf(member(error, "type")),
    code,
    ...(code !== undefined && { details: details as object }),
  };
}
