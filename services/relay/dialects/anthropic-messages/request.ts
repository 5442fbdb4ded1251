import type { Envelope } from "../dialect.ts";
import type { RequestBody } from "../request-body.ts";

// API spec, Messages request: the service removes these before forwarding.
const removedFields = ["inference_geo", "service_tier", "speed"] as const;

export function readEnvelope(body: RequestBody, model: string): Envelope {
  const cap = body.read("max_tokens");
  return {
    body,
    model,
    answer: body.read("stream") === true ? "events" : "json",
    outputCap: typeof cap === "number" && Number.isFinite(cap) && cap >= 0 ? Math.ceil(cap) : undefined,
    choices: 1,
    units: {},
    priceFields: {},
    wantsStreamUsage: true,
  };
}

export function prepareBody({ body, model }: Envelope, upstreamModel: string): Buffer {
  const replace: Record<string, string> = upstreamModel === model ? {} : { model: JSON.stringify(upstreamModel) };
  return body.rewrite({ replace, remove: removedFields });
}

const defaultVersion = "2023-06-01";

/** The caller's version and beta headers travel along: they change the format of the answer that the caller expects. */
export function upstreamHeaders(
  credential: string,
  callerHeaders: Record<string, string | string[] | undefined>,
): string[] {
  const version = callerHeaders["provider-version"] ?? callerHeaders["anthropic-version"] ?? defaultVersion;
  const beta = callerHeaders["anthropic-beta"];
  const headers = ["x-api-key", credential, "anthropic-version", String(version)];
  if (beta !== undefined) headers.push("anthropic-beta", String(beta));
  return headers;
}
