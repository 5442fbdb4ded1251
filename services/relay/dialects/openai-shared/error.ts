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

// Mistral, and vLLM before 2026, send the error without anything around it.
const isBare = (body: unknown): boolean => member(body, "object") === "error";

/** Whether an event of a stream is an error. */
export const isError = (json: unknown): boolean => Boolean(member(json, "error")) || isBare(json);

/** What servers on FastAPI find wrong in a request: `detail: [{loc, msg}]`, or in words. */
function readDetail(detail: unknown): Pick<UpstreamError, "message" | "param"> | undefined {
  if (typeof detail === "string") return { message: detail };
  const found = (Array.isArray(detail) ? (detail as unknown[]) : []).flatMap((entry) => {
    const [message, path] = [stringOf(member(entry, "msg")), member(entry, "loc")];
    const place = Array.isArray(path) ? path.filter((name) => name !== "body").join(".") : "";
    return message === undefined ? [] : [{ message, place }];
  });
  const [first] = found;
  if (!first) return undefined;
  const message = found.map((one) => (one.place === "" ? one.message : `${one.message} (${one.place})`)).join("; ");
  return { message, ...(first.place !== "" && { param: first.place }) };
}

/** Reads `{error: {message, type, param, code}}`; some compatible servers send `error` as a string, or their own. */
export function readError(body: unknown): UpstreamError | undefined {
  const error = isBare(body) ? body : member(body, "error");
  const told = member(error, "message");
  const message = stringOf(error) ?? stringOf(told);
  const found = message === undefined ? readDetail(member(told ?? body, "detail")) : { message };
  if (!found) return undefined;
  const code = member(error, "code");
  return {
    ...found,
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
    onError: ({ json }, error) => {
      const cleaned = clean(error);
      return isUntouched(error, cleaned) && !isBare(json) ? "pass" : writeEvent(cleaned);
    },
  };
}
