import { namelessError } from "../answer.ts";
import { member, stringOf, type UpstreamError } from "../dialect.ts";
import { readError } from "../openai-shared/error.ts";
import { paramOf } from "../plain-error.ts";

/** Reads an error within a stream: it comes flat, or nested as in Format A; a failed response has its own. */
export function readStreamError(event: unknown): UpstreamError {
  const message = stringOf(member(event, "message"));
  if (message !== undefined) {
    return { message, type: undefined, code: stringOf(member(event, "code")), ...paramOf(event) };
  }
  return readError(member(event, "response") ?? event) ?? namelessError;
}
