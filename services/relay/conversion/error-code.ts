import type { UpstreamError } from "../dialects/dialect.ts";
import { failures, type FailureName } from "../failures.ts";

// By which providers tell within a stream what a status says before one: the types of Anthropic, the statuses of
// google.rpc, and codes that are statuses, as gateways write them.
const failuresOfWords = new Map<string, FailureName>([
  ["rate_limit_error", "upstream_rate"],
  ["RESOURCE_EXHAUSTED", "upstream_rate"],
  ["429", "upstream_rate"],
  ["overloaded_error", "upstream_overloaded"],
  ["529", "upstream_overloaded"],
  ["UNAVAILABLE", "upstream_unavailable"],
  ["503", "upstream_unavailable"],
  ["timeout_error", "upstream_timeout"],
  ["DEADLINE_EXCEEDED", "upstream_timeout"],
  ["504", "upstream_timeout"],
  ["invalid_request_error", "upstream_refused"],
  ["INVALID_ARGUMENT", "upstream_refused"],
  ["400", "upstream_refused"],
]);

/**
 * `error.code` in Format A of an error within a converted stream, by which callers decide (API spec, Errors): the
 * upstream's own where it has codes of that format, else that of the failure which its words mean.
 */
export function codeWithin({ type = "", code = "" }: UpstreamError): string {
  if (/^[a-z]/.test(code)) return code;
  const name = failuresOfWords.get(code) ?? failuresOfWords.get(type) ?? "upstream_error";
  return failures[name].code;
}
