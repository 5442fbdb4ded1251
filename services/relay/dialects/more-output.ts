import { cacheLandmarks, type RequestBody } from "./json/request-body.ts";

/** What of a request makes its answer longer, or dearer by the token, than its own cap and the price of text say. */
export type MoreOutput = {
  /** The largest cap by another name, that of other servers; Infinity for one that is no number of at least 1. */
  otherCap?: number;
  /** Tokens of thought beside the cap. */
  thinkingTokens?: number;
  /** Whether it says what the answer may be: what is written of that and rejected is output, too. */
  hasPrediction?: true;
  /** Whether it asks for sound or pictures. */
  hasOtherOutput?: true;
  /** Whether it asks for its input to be kept in a cache, and for how long. */
  writesCache?: "minutes" | "hours";
};

// llama.cpp and its kin, Text Generation Inference, Ollama, Hugging Face, and the names of other formats.
const caps = new Set([
  "n_predict",
  "num_predict",
  "max_new_tokens",
  "max_length",
  "max_output_tokens",
  "max_completion_tokens",
  "max_tokens",
  "max_tokens_to_sample",
  "max_gen_len",
]);
const longCacheFields = new Set(["prompt_cache_options", "prompt_cache_retention"]);
const mostOptionBytes = 4_096;

/**
 * Caps a level below: Ollama's; of thought, at OpenRouter (https://openrouter.ai/docs/guides/best-practices/
 * reasoning-tokens) and at Anthropic, where with tools thought may be more than the answer's own cap
 * (https://platform.claude.com/docs/en/build-with-claude/extended-thinking#interleaved-thinking).
 */
const capsBelow = new Map([
  ["options", "num_predict"],
  ["reasoning", "max_tokens"],
  ["thinking", "budget_tokens"],
]);

export const capNames: readonly string[] = [...caps, "min_tokens", "thinking_budget", ...capsBelow.keys()];

/** A cap as a server takes it that does not refuse what is no cap. */
const capOf = (value: unknown): number => (typeof value === "number" && value >= 1 ? Math.ceil(value) : Infinity);

/** vLLM has 0 where nothing is said. */
const minimumOf = (value: unknown): number | undefined => (value === 0 ? undefined : capOf(value));

/** 0 forbids it; a text is read by some servers, too. */
const thinkingOf = (value: unknown): number => (typeof value === "number" ? Math.max(0, value) : Infinity);

function capBelow(body: RequestBody, name: string, capName: string): number | undefined {
  const settings = body.slice(name);
  if (!settings || settings[0] !== 123) return undefined;
  if (settings.length > mostOptionBytes) return Infinity;
  const { [capName]: cap = null } = JSON.parse(settings.toString()) as Record<string, unknown>;
  if (cap === null) return undefined;
  // 0 forbids thought, and Ollama makes what it likes.
  return name === "options" ? capOf(cap) : minimumOf(cap);
}

function otherCapOf(body: RequestBody, name: string): number | undefined {
  if (caps.has(name)) return capOf(body.read(name));
  if (name === "min_tokens") return minimumOf(body.read(name));
  const capName = capsBelow.get(name);
  return capName === undefined ? undefined : capBelow(body, name, capName);
}

/** A list of text alone asks for what happens anyway. */
const isOnlyText = (bytes: Buffer | undefined): boolean =>
  bytes !== undefined && bytes.length < mostOptionBytes && /^\[\s*"text"\s*\]$/i.test(bytes.toString());

function readField(body: RequestBody, name: string, more: MoreOutput): void {
  const cap = otherCapOf(body, name);
  if (cap !== undefined) more.otherCap = Math.max(more.otherCap ?? 0, cap);
  else if (name === "thinking_budget") more.thinkingTokens = thinkingOf(body.read(name));
  else if (name === "prediction") more.hasPrediction = true;
  else if (name === "audio" || (name === "modalities" && !isOnlyText(body.slice(name)))) more.hasOtherOutput = true;
  else if (longCacheFields.has(name)) more.writesCache = "hours";
}

/** Reads it; `own` are the caps that the dialect reads itself. Nothing of all that, as nearly always, is undefined. */
export function readMoreOutput(body: RequestBody, own: readonly string[]): MoreOutput | undefined {
  const more: MoreOutput = {};
  for (const name of body.names()) if (!own.includes(name) && body.has(name)) readField(body, name, more);
  if (body.has("cache_control") || body.mayHold(cacheLandmarks.mark)) {
    more.writesCache ??= body.mayHold(cacheLandmarks.hour) ? "hours" : "minutes";
  }
  for (const _ in more) return more;
  return undefined;
}
