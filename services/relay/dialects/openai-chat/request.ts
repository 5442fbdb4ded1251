import type { Envelope } from "../dialect.ts";
import { readField, rewriteFields, type Scan } from "../json-scan.ts";
import { member } from "../dialect.ts";

const positive = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) && value > 0 ? Math.ceil(value) : undefined;

// What the provider allows; a larger number is the provider's to refuse and must not inflate the hold.
const maxChoices = 128;

export function readEnvelope(body: Buffer, scan: Scan, model: string): Envelope {
  const cap = positive(readField(body, scan, "max_completion_tokens")) ?? positive(readField(body, scan, "max_tokens"));
  return {
    body,
    scan,
    model,
    isStream: readField(body, scan, "stream") === true,
    outputCap: cap,
    choices: Math.min(positive(readField(body, scan, "n")) ?? 1, maxChoices),
    wantsStreamUsage: member(readField(body, scan, "stream_options"), "include_usage") === true,
  };
}

/**
 * The caller's body with the upstream's model name. A stream is always asked for its token counts, because they are
 * what is charged; the tap keeps them from a caller who did not ask.
 */
export function prepareBody(
  { body, scan, model, isStream, wantsStreamUsage }: Envelope,
  upstreamModel: string,
): Buffer {
  const replace: Record<string, string> = upstreamModel === model ? {} : { model: JSON.stringify(upstreamModel) };
  if (!isStream || wantsStreamUsage) return rewriteFields(body, scan, { replace });
  const asked = readField(body, scan, "stream_options");
  const streamOptions = JSON.stringify({ ...(typeof asked === "object" ? asked : {}), include_usage: true });
  if (asked === undefined) return rewriteFields(body, scan, { replace, add: { stream_options: streamOptions } });
  return rewriteFields(body, scan, { replace: { ...replace, stream_options: streamOptions } });
}

export function upstreamHeaders(credential: string): string[] {
  return ["authorization", `Bearer ${credential}`];
}
