import { member, stringOf, type Refusal, type UpstreamError } from "../dialect.ts";

/** Format B body of the API spec: `{type: 'error', error: {type, message}}`. */
export function writeError({ message, type }: Refusal): string {
  return JSON.stringify({ type: "error", error: { type, message } });
}

/** Reads `{type: 'error', error: {type, message}}`. */
export function readError(body: unknown): UpstreamError | undefined {
  const error = member(body, "error");
  const message = stringOf(member(error, "message"));
  return message === undefined ? undefined : { message, type: stringOf(member(error, "type")), code: undefined };
}
