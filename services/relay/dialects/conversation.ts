/**
 * The neutral request: what a caller may say in any of the conversation formats, richer than each of them. A dialect's
 * reader makes one of a request body, another dialect's writer makes a request body of it.
 */
export type Conversation = {
  turns: Turn[];
  tools: Tool[];
  toolChoice?: ToolChoice;
  /** A search that the provider may do, beside the tools. */
  webSearch?: WebSearch;
  /** False: at most one call in an answer. */
  allowsParallelCalls?: boolean;
  maxOutputTokens?: number;
  temperature?: number;
  topP?: number;
  topK?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  seed?: number;
  /** How many answers are wanted; 1 when left out. */
  choices?: number;
  stopSequences: string[];
  /** How many alternatives to tell with each token; 0: only the token's own probability. */
  topLogprobs?: number;
  reasoning?: Reasoning;
  outputFormat?: OutputFormat;
  /** `low`, `medium` or `high`. */
  verbosity?: string;
  /** Who the caller's own user is, for the provider's abuse checks. */
  endUser?: string;
  /** Settings that OpenAI's two formats share, as they came. */
  shared?: Partial<Record<SharedSetting, unknown>>;
  isStream: boolean;
  wantsStreamUsage: boolean;
};

const sharedSettings = [
  "promptCacheKey",
  "promptCacheRetention",
  "promptCacheOptions",
  "metadata",
  "serviceTier",
] as const;

export type SharedSetting = (typeof sharedSettings)[number];

/** For formats that have none of the settings that OpenAI's two share. */
export function loseShared({ shared }: Conversation, losses: Set<Loss>): void {
  for (const setting of sharedSettings) if (shared?.[setting] !== undefined) losses.add(setting);
}

/** System turns may stand anywhere. Results of tools stand in user turns, before anything else that the user says. */
export type Turn = { role: "system" | "user" | "assistant"; parts: Part[] };

/** Where a provider shall keep what it has read so far; ttl `5m` or `1h`. */
export type CacheMark = { ttl: "5m" | "1h" };

export type MediaSource =
  | { kind: "base64"; mediaType: string; data: string }
  | { kind: "url"; url: string }
  | { kind: "id"; id: string };

/** State that only its issuer can read: a signature of thinking, encrypted reasoning, a thought signature. */
export type Opaque = { issuer: Issuer; value: string };

/** Whose opaque state it is: the dialect of the provider that gave it. */
export type Issuer = "openai-responses" | "anthropic-messages" | "gemini-generate" | "openai-chat";

export type TextPart = { kind: "text"; text: string; citations?: Citation[]; cache?: CacheMark; opaque?: Opaque };
export type ImagePart = { kind: "image"; source: MediaSource; detail?: string; cache?: CacheMark };
export type FilePart = { kind: "file"; source: MediaSource; name?: string; cache?: CacheMark };
export type AudioPart = { kind: "audio"; mediaType: string; data: string };
export type RefusalPart = { kind: "refusal"; text: string };

/** Thinking of the model. Redacted thinking has no text, only opaque state. */
export type ThinkingPart = { kind: "thinking"; text: string; opaque?: Opaque };

/** A call that the model made. `input` is JSON text as the model wrote it; "" means an empty object. */
export type CallPart = {
  kind: "call";
  id: string;
  name: string;
  input: string;
  /** A custom tool's input is free text instead of JSON. */
  isFreeText?: boolean;
  opaque?: Opaque;
  cache?: CacheMark;
};

/** What a tool gave back to the call with this id. */
export type ResultPart = {
  kind: "result";
  callId: string;
  parts: (TextPart | ImagePart | FilePart)[];
  isError: boolean;
  isFreeText?: boolean;
  cache?: CacheMark;
};

export type Part = TextPart | ImagePart | FilePart | AudioPart | RefusalPart | ThinkingPart | CallPart | ResultPart;

/** Where a text comes from. */
export type Citation = { url?: string; title?: string; text?: string; start?: number; end?: number };

export type Tool = {
  name: string;
  description?: string;
  /** JSON Schema of the input; left out: no input. For a free-text tool its grammar, as the caller gave it. */
  schema?: unknown;
  isStrict?: boolean;
  isFreeText?: boolean;
  cache?: CacheMark;
};

/** A search of the web that the provider may do for an answer, in no wire format. */
export type WebSearch = {
  /** What the caller is told was left out where a model has no search that does the same. */
  lostAs: string;
  /** Searches at most; left out: as the provider likes. */
  maxUses?: number;
  /** Of these two at most one. */
  allowedDomains?: string[];
  blockedDomains?: string[];
  /** Where who asks is, about: city, region, country, timezone. */
  location?: Record<string, string>;
  contextSize?: string;
};

/** `names`: only these tools may be called. */
export type ToolChoice = { kind: "auto" | "none" | "required"; names?: string[] };

/** How hard to think: an effort in words, or a budget in tokens; `isShown`: whether the thoughts are wanted. */
export type Reasoning = {
  effort?: Effort;
  budgetTokens?: number;
  isShown?: boolean;
  /** Whether that is said in so many words, not by the way. */
  saysDisplay?: true;
  /** Thinking is asked for without a word on how hard. */
  isThinking?: true;
};

export const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

export type Effort = (typeof efforts)[number];

/** JSON of any shape, or of a schema. */
export type OutputFormat =
  | { kind: "json" }
  | { kind: "schema"; name?: string; description?: string; schema: unknown; isStrict?: boolean };

/** What a writer may have to leave out; each client dialect knows the name of its own field for it. */
export const losses = [
  ...sharedSettings,
  "toolChoice",
  "parallelCalls",
  "maxOutputTokens",
  "temperature",
  "topP",
  "topK",
  "presencePenalty",
  "frequencyPenalty",
  "seed",
  "choices",
  "stopSequences",
  "logprobs",
  "reasoning",
  "reasoningDisplay",
  "systemPlace",
  "outputFormat",
  "verbosity",
  "endUser",
  "cache",
  "citations",
  "opaqueState",
  "thinking",
  "imageDetail",
  "fileName",
  "toolStrictness",
  "resultError",
] as const;

export type Loss = (typeof losses)[number];

/** Notes that instructions from within the conversation go elsewhere, where a format has them at its beginning only. */
export function notePlaces(turns: readonly Turn[], losses: Set<Loss>): void {
  const firstSpoken = turns.findIndex(({ role }) => role !== "system");
  if (turns.some(({ role }, index) => role === "system" && index > firstSpoken && firstSpoken !== -1)) {
    losses.add("systemPlace");
  }
}

/** A request that cannot be said in the target's format at all; the message names the field, for the caller. */
export class UnsupportedError extends Error {}

/** What a writer must know of the model that it writes for. */
export type Target = {
  model: string;
  /** The most that the model writes, in tokens. */
  maxOutputTokens: number;
  quirks: ReadonlySet<Quirk>;
  /** Whether `anthropic-messages` tells the model the format of the answer. */
  takesOutputFormat?: boolean;
  /** Whether the model's prices speak of searches that its provider does. */
  hasSearchPrice?: boolean;
};

/** How a model or its upstream differs from what its dialect says. */
export const quirks = [
  /** Takes `system` where the dialect says `developer`. */
  "no-developer-role",
  /** Takes `max_completion_tokens` and refuses `max_tokens`. */
  "max-completion-tokens",
  /** Takes `max_tokens` and does not know `max_completion_tokens`. */
  "max-tokens",
  /** Refuses temperature, top_p and top_k. */
  "no-sampling",
  /** Thinks by effort only (`adaptive`), and refuses a budget. */
  "adaptive-thinking",
  /** Does not think. */
  "no-thinking",
  /** Cannot be forced to call a tool. */
  "no-forced-tool",
  /** Does not know custom tools, as most servers that speak chat; only OpenAI's own models do. */
  "no-custom-tools",
  /** Does not know `stream_options`. */
  "no-stream-options",
  /** Takes marks of what to cache on parts of a message (OpenAI: from gpt-5.6 on); earlier models refuse them. */
  "cache-breakpoints",
  /** Takes the thinking of earlier turns back as `reasoning_content`; OpenAI itself refuses the field. */
  "reasoning-content",
  /** Takes Gemini's thought signatures in `extra_content`, as Google's own chat endpoint does. */
  "thought-signatures",
  /** Takes thoughts with their state in `reasoning_details`, as OpenRouter and Vercel's AI Gateway give them. */
  "reasoning-details",
  /** Tells its reasoning in total_tokens only, beside completion_tokens, as Google's own chat endpoint does. */
  "reasoning-in-total",
  /** Tells its reasoning beside completion_tokens, in no total, as Vercel's gateway does for Gemini. */
  "reasoning-beside-completion",
  /** Is known to count too few tokens: what it tells of a whole answer is a lower bound, too. */
  "untrusted-counts",
] as const;

export type Quirk = (typeof quirks)[number];
