import type { Model } from "../catalog/models.ts";
import { isFitting } from "../catalog/prices.ts";
import type { Dialect, Envelope } from "../dialects/dialect.ts";
import { findCostlyField } from "../dialects/costly-fields.ts";
import { billingOf } from "../dialects/provider-tools.ts";
import { folded } from "../dialects/json/folded-name.ts";
import { tellInputToolTypes, tellMessageToolTypes, tellToolTypes } from "../dialects/json/tool-types.ts";
import { CallFailure } from "../failures.ts";
import { estimateInputTokens } from "./meter.ts";

/**
 * Tiers that need no price of their own. `auto`, which is what a request without a tier means, is the one that the
 * operator's project is set to at the provider: `default`, unless the operator chose another and prices it.
 */
const commonTiers = new Set(["auto", "default"]);

function refuse(what: string): never {
  throw new CallFailure({ name: "field_invalid", detail: `${what} has no price for this model and cannot be used` });
}

/** Refuses a service tier that the model has no price for. Throws `field_invalid`. */
export function refuseTier(envelope: Envelope, model: Model): void {
  const { service_tier: tier } = envelope.priceFields;
  if (tier === undefined || commonTiers.has(tier)) return;
  const traits = { fields: envelope.priceFields, inputTokens: estimateInputTokens(envelope, model) };
  const row = model.variants.find((variant) => isFitting(variant, traits));
  if (row?.where["service_tier"] === tier) return;
  refuse(`field service_tier "${tier.slice(0, 64)}"`);
}

/**
 * Refuses a size or quality that a server may take for one that has a price of its own, and that would be charged as
 * any other. Throws `field_invalid`.
 */
function refuseOtherSpellings({ priceFields }: Envelope, { variants }: Model): void {
  for (const { where } of variants) {
    for (const name of ["size", "quality"] as const) {
      const [value, priced] = [priceFields[name], where[name]];
      if (value === undefined || priced === undefined || value === priced || folded(value) !== folded(priced)) continue;
      throw new CallFailure({ name: "field_invalid", detail: `field ${name} must be written ${priced}` });
    }
  }
}

/** Fields in which tools stand, by the format; in all but chat also in the middle of a conversation. */
const toolPlaces = {
  A: [
    ["tools", tellToolTypes],
    ["input", tellInputToolTypes],
  ],
  B: [
    ["tools", tellToolTypes],
    ["messages", tellMessageToolTypes],
  ],
} as const;

/** More than any client declares, and few enough that telling what each costs takes no time. */
const maxTools = 10_000;

/** Formats of images, for which Volcengine searches where tools are declared. */
const searchesForImages = new Set<Dialect["name"]>(["openai-images", "openai-image-edits"]);

function refuseTools({ body }: Envelope, { prices }: Model, format: Dialect["format"]): void {
  let tools = 0;
  if (body.has("tools") && !body.isArray("tools")) {
    throw new CallFailure({ name: "field_invalid", detail: "field tools must be an array" });
  }
  for (const [field, tellTypes] of toolPlaces[format]) {
    const bytes = body.slice(field);
    if (!bytes) continue;
    tellTypes(bytes, (type) => {
      tools += 1;
      if (tools > maxTools) {
        throw new CallFailure({ name: "field_invalid", detail: `the body must have at most ${maxTools} tools` });
      }
      const billed = billingOf(type);
      if (billed === "nothing" || (billed !== "apart" && (prices[billed] ?? prices.toolCalls) !== undefined)) return;
      refuse(`a tool of type "${type}" in field ${field}`);
    });
  }
}

function refuseFields({ body }: Envelope, model: Model, name: Dialect["name"]): void {
  const { prices, passesUnpricedTools = false, sharedState } = model;
  const found = findCostlyField(body, name, ({ pass, isOfImages }) => {
    if (typeof pass === "object") return sharedState?.has(pass.sharedState) ?? false;
    if (isOfImages && prices.images === undefined) return true;
    // A fee for each request covers searches that nobody counts.
    return passesUnpricedTools || (pass === "request-price" && prices.requests !== undefined);
  });
  if (found !== undefined) refuse(`field ${found}`);
}

/**
 * Refuses, before money, what of a request its provider bills and no price of the model speaks of: a service tier, a
 * tool that the provider runs, a field of a server beyond the format. For requests that go out as they came; a
 * conversion leaves such things out. Throws `field_invalid`.
 */
export function refuseUnpriced(
  envelope: Envelope,
  model: Model,
  { name, format, isConversation }: Pick<Dialect, "name" | "format" | "isConversation">,
): void {
  refuseTier(envelope, model);
  refuseOtherSpellings(envelope, model);
  refuseFields(envelope, model, name);
  if ((isConversation || searchesForImages.has(name)) && !model.passesUnpricedTools)
    refuseTools(envelope, model, format);
}
