import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { Cleaner, UpstreamDialect, UpstreamError } from "../dialects/dialect.ts";
import { failures, type Failure } from "../failures.ts";

const maxReadLength = 20_000;
const maxMessageLength = 2_000;
const maxCodeLength = 100;
const maxDetailsLength = 4_096;
const hidden = "[hidden]";

// Shorter values are words like "true" or "beta", not secrets.
const minSecretLength = 6;

/** What gives access: neither callers nor the log may see it. */
function secretsOf({ credential, headers, proxy }: Upstream): string[] {
  const userinfo = proxy ? [proxy.username, proxy.password] : [];
  const values = headers.filter((_, index) => index % 2 === 1);
  const others = [...values, ...userinfo, ...userinfo.map(decodeURIComponent)];
  return [credential, ...others.filter(({ length }) => length >= minSecretLength)];
}

function hostsOf({ baseUrl, proxy, tls }: Upstream): string[] {
  const names = [baseUrl, proxy].flatMap((url) => (url ? [url.host, url.hostname] : []));
  return tls?.servername === undefined ? names : [...names, tls.servername];
}

function without(insides: string[], text: string): string {
  // The longest first, because one may stand within another.
  const sorted = insides.toSorted((one, other) => other.length - one.length);
  return sorted.reduce((rest, inside) => rest.replaceAll(inside, hidden), text.slice(0, maxReadLength));
}

// A terminal or a log viewer would obey some of them; a line break and a tab are text.
const controls = /[^\P{Cc}\n\t]|[\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

const withoutControls = (text: string): string => text.replaceAll(controls, " ");

/** Upstreams' wording may name our key, their hosts or our organisation there; callers see none of it. */
function withoutInsides(text: string, upstream: Upstream, maxLength = maxMessageLength): string {
  // Cut to length last, because half a secret would not be recognised.
  return withoutControls(without([...secretsOf(upstream), ...hostsOf(upstream)], text))
    .replaceAll(/\b(?:sk|org|proj|key)-[\w-]{6,}(?:\*+[\w-]*)?/g, hidden)
    .replaceAll(/https?:\/\/[^\s"')]+/g, hidden)
    .slice(0, maxLength);
}

/** Details as callers may see them; of those that are long only their code. */
function shownDetails(details: object, code: string | undefined, upstream: Upstream): object {
  const text = JSON.stringify(details);
  if (text.length > maxDetailsLength) return { error_code: code };
  const clean = (_: string, value: unknown) => (typeof value === "string" ? withoutInsides(value, upstream) : value);
  return JSON.parse(text, clean) as object;
}

function shown({ message, type, code, param, details }: UpstreamError, upstream: Upstream): UpstreamError {
  const word = (text: string | undefined) => text && withoutInsides(text, upstream, maxCodeLength);
  return {
    message: withoutInsides(message, upstream),
    type: word(type),
    code: word(code),
    ...(param !== undefined && { param: word(param) }),
    ...(details && { details: shownDetails(details, word(code), upstream) }),
  };
}

// By which providers tell that the trouble is our account with them, whatever the status.
const accountWords = new Set([
  "account_deactivated",
  "authentication_error",
  "billing_error",
  "billing_hard_limit_reached",
  "billing_not_active",
  // Codes of Anthropic's beside any type; those that tell of limits come with 429.
  "claude_code_key_creator_not_member",
  "cmek_key_disabled",
  "cmek_key_network_blocked",
  "contract_spend_limit_reached",
  "enforced_spend_limit_reached",
  "insufficient_quota",
  "invalid_api_key",
  "invalid_organization",
  "organization_on_hold",
  "permission_error",
  "API_KEY_INVALID",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
]);

// Anthropic answers these with 400 and invalid_request_error; there is nothing else to know them by. At the beginning
// only: further on, callers may have their own words repeated.
const accountWording = /^Your credit balance is too low|^You have reached your specified API usage limits/;

function isOfAccount({ message, type, code }: UpstreamError): boolean {
  return accountWords.has(code ?? "") || accountWords.has(type ?? "") || accountWording.test(message);
}

/** A text for the log and for operators: with the upstream's hosts, without what gives access. */
export const withoutSecrets = (text: string, upstream: Upstream): string =>
  withoutControls(without(secretsOf(upstream), text)).slice(0, maxMessageLength);

/** An error for the log. */
function loggedError({ message, type, code }: UpstreamError, upstream: Upstream): object {
  const plain = (text: string): string => withoutSecrets(text, upstream);
  return { message: plain(message), type: type && plain(type), code: code && plain(code) };
}

/**
 * What an upstream's error means to the caller (API spec, Cases, and its silent points): requests the upstream refuses
 * keep its wording; trouble with the service's own account there, rate limits and overload get the spec's words.
 */
export function upstreamFailure(
  status: number,
  body: unknown,
  dialect: Pick<UpstreamDialect, "readError">,
  upstream: Upstream,
): Failure {
  const error = dialect.readError(body);
  const cause = { status, error: error && loggedError(error, upstream) };
  if (status === 401 || status === 402 || status === 403) return { name: "upstream_account", cause };
  if (status >= 400 && error && isOfAccount(error)) return { name: "upstream_account", cause };
  if (status === 429) return { name: "upstream_rate", cause };
  if (status === 529 || error?.type === "overloaded_error") return { name: "upstream_overloaded", cause };
  if (status === 503) return { name: "upstream_unavailable", cause };
  if (status === 504 || status === 408) return { name: "upstream_timeout", cause };
  if (!error) return { name: "upstream_invalid", cause };
  const { message: detail, type: upstreamType, code, param, details } = shown(error, upstream);
  if (status >= 400 && status < 500) {
    return { name: "upstream_refused", detail, upstreamType, code, param, details, cause };
  }
  if (status >= 500) return { name: "upstream_error", detail, upstreamType, param, cause };
  return { name: "upstream_invalid", cause };
}

/** For errors within a stream: the upstream's wording without our insides, and none of it about our account there. */
export function cleanerOf(upstream: Upstream): Cleaner {
  return (error) => {
    if (!isOfAccount(error) && error.message !== "") return shown(error, upstream);
    return { message: failures.upstream_unreachable.message, type: "api_error", code: "server_error" };
  };
}
