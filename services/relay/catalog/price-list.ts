import type { UsageBucket } from "#shared/money/pricing.ts";

/** The public price list's JSON, its numbers as the very text that they are written with: no price becomes a float. */
export function parseExact(text: string): unknown {
  type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
  const parse = JSON.parse as (text: string, reviver: Reviver) => unknown;
  return parse(text, (_key, value, { source }) => (typeof value === "number" ? source : value));
}

const numberPattern = /^(\d{1,30})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,2}))?$/;

// 10^9 nano-USD in a USD, a million units in a price.
const exponentOfPrice = 15;

/**
 * USD for `units` units, as JSON writes a number, in nano-USD per 1,000,000 of them; undefined when that is no whole
 * number, or the text no number of at least 0.
 */
export function nanosOf(text: string, units = 1n): bigint | undefined {
  const match = numberPattern.exec(text);
  if (!match) return undefined;
  const [, whole = "", decimals = "", exponent = "0"] = match;
  const shift = Number(exponent) - decimals.length + exponentOfPrice;
  const digits = BigInt(whole + decimals) * 10n ** BigInt(Math.max(shift, 0));
  const divisor = units * 10n ** BigInt(Math.max(-shift, 0));
  return digits % divisor === 0n ? digits / divisor : undefined;
}

/** What a price field says; `modes` are those of the list in which it means that, all where it is left out. */
type Field = { bucket: UsageBucket; modes?: string[]; units?: bigint };

const searchCost = "search_context_cost_per_query";

const fields: Record<string, Field> = {
  input_cost_per_token: { bucket: "inputTokens" },
  output_cost_per_token: { bucket: "outputTokens" },
  cache_read_input_token_cost: { bucket: "cacheReadTokens" },
  cache_creation_input_token_cost: { bucket: "cacheWrite5mTokens" },
  // Anthropic keeps what was written for longer for an hour, OpenAI for twelve.
  cache_creation_input_token_cost_above_1hr: { bucket: "cacheWrite1hTokens" },
  cache_creation_input_token_cost_above_12hr: { bucket: "cacheWrite1hTokens" },
  output_cost_per_reasoning_token: { bucket: "reasoningTokens" },
  input_cost_per_audio_token: { bucket: "audioInputTokens" },
  output_cost_per_audio_token: { bucket: "audioOutputTokens" },
  input_cost_per_image_token: { bucket: "imageInputTokens" },
  output_cost_per_image_token: { bucket: "imageOutputTokens" },
  // Elsewhere a picture that is read, which this catalog counts in tokens.
  input_cost_per_image: { bucket: "images", modes: ["image_generation"] },
  output_cost_per_image: { bucket: "images", modes: ["image_generation"] },
  input_cost_per_character: { bucket: "characters", modes: ["audio_speech"] },
  input_cost_per_second: { bucket: "mediaMs", modes: ["audio_transcription"], units: 1_000n },
  input_cost_per_request: { bucket: "requests" },
  file_search_cost_per_1k_calls: { bucket: "fileSearches", units: 1_000n },
  code_interpreter_cost_per_session: { bucket: "codeSessions" },
  [searchCost]: { bucket: "webSearches", modes: ["chat", "responses"] },
};

const keyPattern = /^(.+?)(?:_above_(\d{1,5})k_tokens)?(?:_(priority|ultrafast|flex|batches))?$/;

/** For which calls a price is: all of them, where neither is set. */
export type ListCondition = { serviceTier: string | undefined; aboveInputTokens: number | undefined };

export type ListPrices = ListCondition & { prices: Map<UsageBucket, bigint> };

/** A model of the list: its prices by condition, what of them the catalog has no words for, and what is wrong. */
export type ListEntry = { prices: ListPrices[]; unsaid: string[]; zeros: string[]; problems: string[] };

const isAboutMoney = (key: string): boolean => /cost|pric|dbu|provider_specific_entry/.test(key);

/** The group of this condition, made when it is not there. */
function groupOf(groups: ListPrices[], { serviceTier, aboveInputTokens }: ListCondition): ListPrices {
  const found = groups.find(
    (group) => group.serviceTier === serviceTier && group.aboveInputTokens === aboveInputTokens,
  );
  if (found) return found;
  const group = { serviceTier, aboveInputTokens, prices: new Map<UsageBucket, bigint>() };
  groups.push(group);
  return group;
}

const shown = (key: string, value: unknown): string => `${key}: ${JSON.stringify(value)?.slice(0, 200)}`;

/** A search may cost by the size of what it finds, which a caller chooses: the dearest counts. */
function dearestSearch(sizes: unknown): string | undefined {
  const prices = typeof sizes === "object" && sizes !== null ? Object.values(sizes) : [sizes];
  const texts = prices.filter((price): price is string => typeof price === "string" && nanosOf(price) !== undefined);
  if (texts.length < prices.length) return undefined;
  return texts.toSorted((one, other) => Number((nanosOf(other) ?? 0n) - (nanosOf(one) ?? 0n)))[0];
}

function readField(key: string, given: unknown, mode: string, entry: ListEntry): void {
  const value = key === searchCost ? (dearestSearch(given) ?? given) : given;
  const [, name = "", above, tier] = keyPattern.exec(key) ?? [];
  const named = Object.hasOwn(fields, name) ? fields[name] : undefined;
  const field = (named?.modes?.includes(mode) ?? true) ? named : undefined;
  const isZero = typeof value === "string" && nanosOf(value) === 0n;
  if (isZero) return void entry.zeros.push(key);
  if (!field || typeof value !== "string") return void entry.unsaid.push(shown(key, value));
  const nanos = nanosOf(value, field.units);
  if (nanos === undefined) {
    entry.problems.push(`${key}: ${value} is no whole number of nano-USD per 1,000,000 units`);
    return;
  }
  const { prices } = groupOf(entry.prices, {
    serviceTier: tier === "batches" ? "batch" : tier,
    aboveInputTokens: above === undefined ? undefined : Number(above) * 1_000,
  });
  const earlier = prices.get(field.bucket);
  if (earlier !== undefined && earlier !== nanos)
    entry.problems.push(`${key}: ${value} is another price of ${field.bucket} than an earlier field's`);
  prices.set(field.bucket, nanos);
}

/** Reads every field about money of a model in the list; null says nothing. */
export function readListEntry(source: object, mode: string): ListEntry {
  const entry: ListEntry = { prices: [], unsaid: [], zeros: [], problems: [] };
  for (const [key, value] of Object.entries(source)) {
    if (isAboutMoney(key) && value !== null) readField(key, value, mode, entry);
  }
  return entry;
}
