import { pricedFor, type Model } from "../catalog/models.ts";
import type { PriceCondition, PriceTraits } from "../catalog/prices.ts";
import type { Envelope } from "../dialects/dialect.ts";
import type { RequestFacts } from "../live-call.ts";
import { estimateInputTokens, estimateNanos } from "./meter.ts";

// What a provider chooses where a request says so, and then tells. A size that is not named is its usual one, which the
// model's own price is for; a quality that is not named may be any.
const choosable = ["size", "quality"];
const isLeftOpen = (name: string, value: string | undefined): boolean =>
  value === "auto" || (name === "quality" && !value);

function mayFit({ where, aboveInputTokens }: PriceCondition, { fields, inputTokens }: PriceTraits): boolean {
  const isOpen = (name: string): boolean => choosable.includes(name) && isLeftOpen(name, fields[name]);
  const conditions = Object.entries(where);
  return inputTokens > aboveInputTokens && conditions.every(([name, value]) => isOpen(name) || fields[name] === value);
}

/** The model at the prices by which a call is held for: the dearest of those that its answer may be charged by. */
export function heldRow(envelope: Envelope, offered: Model, { priceFields }: RequestFacts): Model {
  if (offered.variants.length === 0) return offered;
  const traits = { fields: priceFields, inputTokens: estimateInputTokens(envelope, offered) };
  const asked = pricedFor(offered, () => traits);
  const isOpen = choosable.some((name) => isLeftOpen(name, priceFields[name]));
  const others = isOpen ? offered.variants.filter((variant) => choosable.some((name) => name in variant.where)) : [];
  const rows = others.filter((variant) => mayFit(variant, traits)).map(({ model }) => model);
  const nanosOf = (row: Model): bigint => estimateNanos(envelope, row);
  return rows.reduce((dearest, row) => (nanosOf(row) > nanosOf(dearest) ? row : dearest), asked);
}
