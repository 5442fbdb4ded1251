import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { Envelope } from "../dialects/dialect.ts";
import type { RequestBody } from "../dialects/json/request-body.ts";
import { tellToolTypes } from "../dialects/json/tool-types.ts";
import { billingOf } from "../dialects/provider-tools.ts";

const tools = ["webSearches", "fileSearches", "codeSessions", "searchSources"] as const satisfies UsageBucket[];

/**
 * Use of tools as these prices speak of it: one without a price of its own is a tool call, so that none is free and a
 * catalog that prices all tools alike needs one price. A web fetch is not among them: Anthropic bills it by its tokens
 * only (platform.claude.com/docs/en/agents-and-tools/tool-use/web-fetch-tool).
 */
export function asPricedTools(usage: Units, prices: Units): Units {
  let told: Units | undefined;
  for (const bucket of tools) {
    const units = usage[bucket] ?? 0n;
    if (units === 0n || prices[bucket] !== undefined) continue;
    told ??= { ...usage };
    told[bucket] = 0n;
    told.toolCalls = (told.toolCalls ?? 0n) + units;
  }
  return told ?? usage;
}

/** Content that is no text. */
export const mediaBuckets = ["audioOutputTokens", "imageOutputTokens"] as const satisfies UsageBucket[];

/** Estimated tokens of sound and pictures as these prices speak of them: output, without a price of their own. */
export function asPricedMedia(usage: Units, prices: Units): Units {
  let told: Units | undefined;
  for (const bucket of mediaBuckets) {
    const units = usage[bucket] ?? 0n;
    if (units === 0n || prices[bucket] !== undefined || prices.outputTokens === undefined) continue;
    told ??= { ...usage };
    told[bucket] = 0n;
    told.outputTokens = (told.outputTokens ?? 0n) + units;
  }
  return told ?? usage;
}

// Runs that are held for a tool whose request sets no limit, and the most that one is believed to set.
const usualRuns = 10;
const maxRuns = 1_000;

// Anthropic's limit of a tool; the names of a tool's own fields stand in a schema, where it may be held for as well.
const maxUses = /"max_uses"\s*:\s*(\d{1,9})/g;

/** Runs of provider-run tools that a request may cause, as its limits say: of all tools, or of each. */
function allowedRuns({ body }: Envelope, tools: Buffer): number {
  const limit = body.read("max_tool_calls");
  if (typeof limit === "number" && limit >= 0) return Math.min(limit, maxRuns);
  const limits = [...tools.toString("latin1").matchAll(maxUses)].map(([, uses]) => Number(uses));
  return limits.length === 0 ? usualRuns : Math.min(Math.max(...limits), maxRuns);
}

const isPriced = (prices: Units): boolean => (prices.toolCalls ?? tools.find((bucket) => prices[bucket])) !== undefined;

/**
 * Use of tools to hold money for: each that the provider bills by the run, as often as the request allows. What is
 * found there is input of which nobody knows the size before.
 */
export function heldTools(envelope: Envelope, prices: Units): Units {
  return isPriced(prices) ? asPricedTools(toolRuns(envelope), prices) : {};
}

const known = new WeakMap<RequestBody, Units>();

/** How often a request allows each tool to run that its provider bills by the run. */
export function toolRuns(envelope: Envelope): Units {
  const before = known.get(envelope.body);
  if (before) return before;
  const declared = envelope.body.slice("tools");
  const runs: Units = envelope.body.has("web_search_options") ? { webSearches: BigInt(usualRuns) } : {};
  if (declared) {
    tellToolTypes(declared, (type) => {
      const bucket = billingOf(type);
      if (bucket === "nothing" || bucket === "apart") return;
      runs[bucket] = BigInt(Math.ceil(allowedRuns(envelope, declared)));
    });
  }
  known.set(envelope.body, runs);
  return runs;
}

/** Remembers what another thread has found of a body whose bytes it has. */
export const noteToolRuns = (body: RequestBody, runs: Units): void => void known.set(body, runs);
