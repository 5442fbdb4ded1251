import { member, stringOf, type UpstreamError } from "./dialect.ts";
import { readPlainError } from "./plain-error.ts";

/** `reason` of google.rpc.ErrorInfo among the details: tells what the status does not, such as API_KEY_INVALID. */
function reasonOf(details: unknown): string | undefined {
  if (!Array.isArray(details)) return undefined;
  return details.map((detail) => stringOf(member(detail, "reason"))).find((reason) => reason !== undefined);
}

/** Reads `{error: {code, message, status, details}}`; the chat endpoint, and a stream without alt=sse, send a list. */
export function readGoogleError(body: unknown): UpstreamError | undefined {
  const own: unknown = Array.isArray(body) ? body[0] : body;
  const error = member(own, "error");
  const message = stringOf(member(error, "message"));
  if (message === undefined) return readPlainError(own);
  const status = stringOf(member(error, "status"));
  return { message, type: status, code: reasonOf(member(error, "details")) ?? status };
}
