import { member, stringOf, type Refusal, type UpstreamError } from "../dialect.ts";

/** Format A body of the API spec: `{error: {message, type, param, code}}`; passed errors carry the upstream's type. */
export function writeError({ message, upstreamType = "api_error", code }: Refusal): string {
  return JSON.stringify({ error: { message, type: upstreamType, param: "", code } });
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
  };
}
