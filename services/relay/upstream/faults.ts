import { CallFailure } from "../failures.ts";
import type { Metrics } from "../metrics.ts";
import { SendError } from "./send.ts";

/** What was wrong with an upstream, by where it showed. */
export const upstreamFaults = [
  "connect",
  "tls",
  "dns",
  "timeout",
  "reset",
  "status_4xx",
  "status_429",
  "status_5xx",
  "malformed",
] as const;
export type UpstreamFault = (typeof upstreamFaults)[number];

// The codes of Node and undici: the first that fits.
const faultsByCode: [RegExp, UpstreamFault][] = [
  [/^(?:ENOTFOUND|EAI_\w+|ENODATA)$/, "dns"],
  [
    /^(?:ERR_TLS_\w+|ERR_SSL_\w+|ERR_OSSL\w*|CERT_\w+|\w*SELF_SIGNED_CERT\w*|UNABLE_TO_\w+|EPROTO|UND_ERR_PRX_TLS)$/,
    "tls",
  ],
  [/^(?:UND_ERR_HEADERS_TIMEOUT|UND_ERR_BODY_TIMEOUT)$/, "timeout"],
  [/^(?:UND_ERR_CONNECT_TIMEOUT|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EADDRNOTAVAIL)$/, "connect"],
  [/^(?:HPE_\w+|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES\w*|UND_ERR_INVALID_RETURN_VALUE)$/, "malformed"],
];

const codeOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : "";

/** What an attempt that threw says of the upstream; undefined: nothing. */
export function faultOfError(thrown: unknown): UpstreamFault | undefined {
  if (thrown instanceof CallFailure) return thrown.failure.name === "upstream_invalid" ? "malformed" : undefined;
  if (!(thrown instanceof SendError)) return undefined;
  const code = codeOf(thrown.cause);
  const known = faultsByCode.find(([pattern]) => pattern.test(code));
  if (known) return known[1];
  return thrown.isUnsent ? "connect" : "reset";
}

/** What a status other than 200 says of it. Redirects are not followed, and no answer. */
export function faultOfStatus(status: number): UpstreamFault {
  if (status === 429) return "status_429";
  if (status >= 500) return "status_5xx";
  return status >= 400 ? "status_4xx" : "malformed";
}

/** What a stream says of it that has ended so, in the words of the log. */
export function faultOfEnd(end: string): UpstreamFault | undefined {
  if (end === "upstream_timeout") return "timeout";
  return end === "upstream_cut" ? "reset" : undefined;
}

export function countFault(
  { faults }: Pick<Metrics, "faults">,
  upstream: string,
  reason: UpstreamFault | undefined,
): void {
  if (reason) faults.inc({ upstream, reason });
}
