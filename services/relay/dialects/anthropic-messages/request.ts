import { member, positive, RequestError, stringOf, type Envelope } from "../dialect.ts";
import { readMoreOutput } from "../more-output.ts";
import { isOurNote } from "../opaque.ts";
import { readSwitch } from "../read-settings.ts";
import { landmarks, type RequestBody } from "../json/request-body.ts";

// API spec, Messages request: the service removes inference_geo, service_tier and speed before forwarding.
const removedFields = ["inference_geo", "service_tier", "speed", "thread"] as const;

// More than the ids of a thread and a message.
const maxThreadBytes = 4_096;

/**
 * A thread is a conversation that the provider keeps for the account it serves: ours, which is shared, so that nobody
 * may go on with one by its id. Clients that get this code send the whole conversation instead
 * (@anthropic-ai/sdk 1.11, lib/internal/threads/ThreadState). A new thread holds nothing yet.
 */
function readThread(thread: unknown): Pick<Envelope, "removed"> {
  if (thread === undefined || thread === null) return {};
  const isNew = member(thread, "type") === "create" && member(thread, "previous_message_id") === undefined;
  if (isNew) return { removed: ["thread"] };
  const message = "field thread cannot continue an earlier message here: send the whole conversation without it";
  throw new RequestError(message, "thread_unsupported_request");
}

// The list is short, and one of its entries has a few settings (@anthropic-ai/sdk 1.12, BetaFallbackParam).
const maxFallbacksBytes = 65_536;

/** Throws RequestError for a list that is longer than any. */
const readFallbacks = (body: RequestBody): unknown => body.readWhole("fallbacks", maxFallbacksBytes);

const ownCaps = ["max_tokens"];

// 0 is one: it has the input written to the cache, and nothing made.
const isCap = (cap: unknown): cap is number => cap === 0 || positive(cap) !== undefined;

/** The largest cap of a request and of those that it may fall back to, of which one answers; none where one is none. */
function longestOf(caps: readonly unknown[]): number | undefined {
  const given = caps.filter((cap) => cap !== undefined && cap !== null);
  return given.length > 0 && given.every(isCap) ? Math.ceil(Math.max(...given)) : undefined;
}

export function readEnvelope(body: RequestBody, model: string): Envelope {
  const given = readFallbacks(body);
  // The text "default" leaves the choice to the provider.
  const fallbacks: unknown[] = Array.isArray(given) ? given : [];
  const caps = [body.read("max_tokens"), ...fallbacks.map((entry) => member(entry, "max_tokens"))];
  const names = fallbacks.map((entry) => stringOf(member(entry, "model")) ?? "");
  return {
    body,
    model,
    answer: readSwitch(body, "stream") ? "events" : "json",
    outputCap: longestOf(caps),
    more: readMoreOutput(body, ownCaps),
    choices: 1,
    ...(names.length > 0 && { fallbackModels: names }),
    units: {},
    priceFields: {},
    wantsStreamUsage: true,
    ...readThread(body.readWhole("thread", maxThreadBytes)),
  };
}

const isNote = (block: unknown): boolean => isOurNote(member(block, "signature")) || isOurNote(member(block, "data"));

/**
 * The turns without thinking of other providers' models, which came with a note of ours in the place of a signature
 * and would be refused here. A turn that holds nothing else goes too.
 */
function withoutNotes(messages: unknown): unknown[] {
  if (!Array.isArray(messages)) return [];
  return messages.flatMap((turn: unknown) => {
    const content = member(turn, "content");
    if (!Array.isArray(content) || !content.some(isNote)) return [turn];
    const kept = content.filter((block) => !isNote(block));
    return kept.length > 0 ? [{ ...(turn as object), content: kept }] : [];
  });
}

/** Models to which the provider may fall back, without the settings that are removed from the request itself. */
function withoutRemoved(fallbacks: unknown): unknown {
  if (!Array.isArray(fallbacks)) return fallbacks;
  return fallbacks.map((entry: unknown) => {
    if (typeof entry !== "object" || entry === null) return entry;
    return Object.fromEntries(Object.entries(entry).filter(([name]) => !removedFields.some((field) => field === name)));
  });
}

export function prepareBody({ body, model }: Envelope, upstreamModel: string): Buffer {
  const replace: Record<string, string> = upstreamModel === model ? {} : { model: JSON.stringify(upstreamModel) };
  if (body.mayHold(landmarks.note)) replace["messages"] = JSON.stringify(withoutNotes(body.readWhole("messages")));
  const fallbacks = readFallbacks(body);
  if (fallbacks !== undefined) replace["fallbacks"] = JSON.stringify(withoutRemoved(fallbacks));
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
