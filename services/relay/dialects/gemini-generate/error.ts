import { member, stringOf, type UpstreamError } from "../dialect.ts";

/** `reason` of google.rpc.ErrorInfo among the details: tells what the status does not, such as API_KEY_INVALID. */
function reasonOf(details: unknown): string | undefined {
  if (!Array.isArray(details)) return undefined;
  return details.map((detail) => stringOf(member(detail, "reason"))).find((reason) => reason !== undefined);
}

/** Reads `{error: {code, message, status, details}}`; a stream without alt=sse sends it within an array. */
export function readError(body: unknown): UpstreamError | undefined {
  const error: unknown = member(Array.isArray(body) ? body[0] : body, "error");
  const message = stringOf(member(error, "message"));
  if (message === undefined) return undefined;
  const status = stringOf(member(error, "status"));
  return { message, type: status, code: reasonOf(member(error, "details")) ?? status };
}
