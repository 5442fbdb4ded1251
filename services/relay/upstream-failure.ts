import type { Upstream } from "./catalog-upstreams.ts";
import type { Dialect } from "./dialects/dialect.ts";
import type { Failure } from "./failures.ts";

const maxReadLength = 20_000;
const maxMessageLength = 2_000;
const hidden = "[hidden]";

/** Upstreams' wording may name our key, their hosts or our organisation there; callers see none of it. */
function withoutInsides(message: string, upstream: Upstream): string {
  // Cut to length last, because half a secret would not be recognised.
  return message
    .slice(0, maxReadLength)
    .replaceAll(upstream.credential, hidden)
    .replaceAll(upstream.baseUrl.host, hidden)
    .replaceAll(upstream.baseUrl.hostname, hidden)
    .replaceAll(/\b(?:sk|org|proj|key)-[\w-]{6,}(?:\*+[\w-]*)?/g, hidden)
    .replaceAll(/https?:\/\/[^\s"')]+/g, hidden)
    .slice(0, maxMessageLength);
}

/** By which upstreams tell that our account there has run dry, with the status of a rate limit. */
const noMoneyCode = "insufficient_quota";

/**
 * What an upstream's error means to the caller (API spec, Cases, and its silent points): requests the upstream refuses
 * keep its wording; trouble with the service's own account there, rate limits and overload get the spec's words.
 */
export function upstreamFailure(status: number, body: unknown, dialect: Dialect, upstream: Upstream): Failure {
  const error = dialect.readError(body);
  const cause = { status, error };
  if (status === 429 && error?.code !== noMoneyCode) return { name: "upstream_rate", cause };
  if (status === 429 || status === 401 || status === 402 || status === 403) return { name: "upstream_account", cause };
  if (status === 529 || error?.type === "overloaded_error") return { name: "upstream_overloaded", cause };
  if (status === 503) return { name: "upstream_unavailable", cause };
  if (status === 504 || status === 408) return { name: "upstream_timeout", cause };
  if (!error) return { name: "upstream_invalid", cause };
  const words = { detail: withoutInsides(error.message, upstream), upstreamType: error.type };
  if (status >= 400 && status < 500) return { name: "upstream_refused", ...words, code: error.code, cause };
  if (status >= 500) return { name: "upstream_error", ...words, cause };
  return { name: "upstream_invalid", cause };
}
