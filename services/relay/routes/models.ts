import type { IncomingHttpHeaders } from "node:http";
import { usageBuckets, type Units } from "#shared/money/pricing.ts";
import { makesText, type Model } from "../catalog/models.ts";
import { shortUsd } from "../catalog/prices.ts";
import { catalogNameOf } from "../catalog/schema.ts";
import { endpointsOf } from "../http/endpoints.ts";
import { readVersion } from "../http/read.ts";

/**
 * API spec, Endpoints: the Format B list when both `x-api-key` and `provider-version` are present. The newest clients
 * of Format B send their key as `Authorization: Bearer`, which that format takes as well; they are known by the name
 * that they have for the version.
 */
export function wantsFormatB(headers: IncomingHttpHeaders): boolean {
  if (readVersion(headers) === undefined) return false;
  return Boolean(headers["x-api-key"]) || headers["anthropic-version"] !== undefined;
}

/** Prices by the catalog's names of what is charged, in USD per 1,000,000 units. */
function pricesOf(prices: Units): Record<string, string> {
  const named = usageBuckets.map((bucket) => [catalogNameOf(bucket), prices[bucket]] as const);
  return Object.fromEntries(named.flatMap(([name, nanos]) => (nanos === undefined ? [] : [[name, shortUsd(nanos)]])));
}

/** What no official client knows of a model and callers ask for all the same. */
function offerOf(model: Model, offersVideos: boolean) {
  return {
    endpoints: endpointsOf(model, offersVideos),
    prices: pricesOf(model.prices),
    price_variants: model.variants.map(({ where, aboveInputTokens, model: { prices } }) => ({
      ...where,
      ...(aboveInputTokens >= 0 && { above_input_tokens: aboveInputTokens }),
      prices: pricesOf(prices),
    })),
  };
}

/** How much a model reads and writes; null where it makes no text, for the catalog need not say so there. */
function limitsOf({ dialects, contextTokens, maxOutputTokens }: Model) {
  return makesText(dialects) ? { contextTokens, maxOutputTokens } : { contextTokens: null, maxOutputTokens: null };
}

/** A model as the Format A list shows it. */
export function entryFormatA(model: Model, offersVideos: boolean) {
  const { id, createdAtSeconds, ownedBy } = model;
  const { contextTokens, maxOutputTokens } = limitsOf(model);
  return {
    id,
    object: "model" as const,
    created: createdAtSeconds,
    owned_by: ownedBy,
    context_length: contextTokens,
    max_output_tokens: maxOutputTokens,
    ...offerOf(model, offersVideos),
  };
}

/** A model as the Format B list shows it. */
export function entryFormatB(model: Model, offersVideos: boolean) {
  const { id, createdAtSeconds } = model;
  const { contextTokens, maxOutputTokens } = limitsOf(model);
  return {
    type: "model" as const,
    id,
    display_name: id,
    created_at: new Date(createdAtSeconds * 1_000).toISOString().replace(".000", ""),
    max_input_tokens: contextTokens,
    max_tokens: maxOutputTokens,
    // What the format has and the catalog does not say.
    capabilities: null,
    deprecated_at: null,
    lifecycle: "active" as const,
    line: null,
    retires_at: null,
    ...offerOf(model, offersVideos),
  };
}

/** Format A list of models. */
export function listFormatA(models: Model[], offersVideos: boolean) {
  return { object: "list" as const, data: models.map((model) => entryFormatA(model, offersVideos)) };
}

/** Format B list of models, all on one page. */
export function listFormatB(models: Model[], offersVideos: boolean) {
  const [first, last] = [models[0], models.at(-1)];
  const data = models.map((model) => entryFormatB(model, offersVideos));
  return { data, has_more: false, first_id: first?.id ?? null, last_id: last?.id ?? null };
}
