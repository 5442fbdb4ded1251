import { member, positive, RequestError, tierOf, type Envelope } from "../dialect.ts";
import { readMoreOutput } from "../more-output.ts";
import { readCount, readSwitch } from "../read-settings.ts";
import { readStreamOptions } from "../openai-shared/stream-options.ts";
import { landmarks, type RequestBody } from "../json/request-body.ts";

// What the provider allows.
const maxChoices = 128;

/**
 * The larger of the two caps: one upstream keeps to the newer name, one to the older, one knows the older only. A cap
 * that is no number is none, for upstreams that take -1 for no end.
 */
function readCap(body: RequestBody): Pick<Envelope, "outputCap" | "isNewCap"> {
  const newer = body.has("max_completion_tokens") ? (positive(body.read("max_completion_tokens")) ?? Infinity) : 0;
  const older = body.has("max_tokens") ? (positive(body.read("max_tokens")) ?? Infinity) : 0;
  const larger = Math.max(newer, older);
  const outputCap = larger > 0 && larger < Infinity ? larger : undefined;
  return { outputCap, isNewCap: older === 0 && outputCap !== undefined };
}

const ownCaps = ["max_completion_tokens", "max_tokens"];

export function readEnvelope(body: RequestBody, model: string): Envelope {
  // xAI answers with an id alone; what is fetched by it later cannot be counted, and no endpoint would fetch it.
  if (readSwitch(body, "deferred")) throw new RequestError("field deferred must not be true");
  return {
    body,
    model,
    answer: readSwitch(body, "stream") ? "events" : "json",
    ...readCap(body),
    more: readMoreOutput(body, ownCaps),
    choices: readCount(body, "n", maxChoices) ?? 1,
    units: {},
    priceFields: tierOf(body.read("service_tier")),
    wantsStreamUsage: member(readStreamOptions(body), "include_usage") === true,
  };
}

function withoutOurs(value: unknown): unknown {
  const extra = member(value, "extra_content");
  if (member(extra, "relay") === undefined) return value;
  const { relay: _, ...others } = extra as Record<string, unknown>;
  const { extra_content: __, ...rest } = value as Record<string, unknown>;
  return Object.keys(others).length > 0 ? { ...rest, extra_content: others } : rest;
}

/** The messages without state of other providers' models, which a caller sends back and this upstream does not know. */
function withoutExtra(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages;
  return messages.map((message) => {
    const kept = withoutOurs(message);
    const calls = member(kept, "tool_calls");
    return Array.isArray(calls) ? { ...(kept as object), tool_calls: calls.map(withoutOurs) } : kept;
  });
}

const usageName = Buffer.from('"include_usage"');
const backslash = 92;

/** Whether the wish for counts stands once in its options: of two, servers take the one or the other. */
function isOneUsage(body: RequestBody): boolean {
  const options = body.slice("stream_options");
  if (!options || options.includes(backslash)) return false;
  return options.indexOf(usageName) === options.lastIndexOf(usageName);
}

/**
 * The caller's body with the upstream's model name. A stream is always asked for its token counts, because they are
 * what is charged; the tap keeps them from a caller who did not ask.
 */
export function prepareBody({ body, model, answer, wantsStreamUsage }: Envelope, upstreamModel: string): Buffer {
  const replace: Record<string, string> = upstreamModel === model ? {} : { model: JSON.stringify(upstreamModel) };
  if (body.mayHold(landmarks.extraContent))
    replace["messages"] = JSON.stringify(withoutExtra(body.readWhole("messages")));
  if (answer !== "events" || (wantsStreamUsage && isOneUsage(body))) return body.rewrite({ replace });
  const asked = readStreamOptions(body);
  const streamOptions = JSON.stringify({ ...(typeof asked === "object" ? asked : {}), include_usage: true });
  if (asked === undefined) return body.rewrite({ replace, add: { stream_options: streamOptions } });
  return body.rewrite({ replace: { ...replace, stream_options: streamOptions } });
}
