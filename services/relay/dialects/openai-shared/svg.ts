import type { Units } from "#shared/money/pricing.ts";
import { addUnits, countOf, member, stringOf, takeParts, type ModelPart } from "../dialect.ts";

// A broken provider makes nobody search for long.
const mostModels = 16;

/** Adds the use of the model that wrote an SVG (`svg_usage`), which is in no other count of the answer. */
export function countSvg(drawing: unknown, parts: ModelPart[]): void {
  const told = member(drawing, "svg_usage");
  const model = stringOf(member(told, "model"));
  if (model === undefined) return;
  const { rest: outputTokens, reasoningTokens } = takeParts(countOf(member(told, "output_tokens")), {
    reasoningTokens: countOf(member(told, "reasoning_tokens")),
  });
  let part = parts.find((known) => known.model === model);
  if (!part && parts.length < mostModels) parts.push((part = { model, usage: {} }));
  if (part) addUnits(part.usage, { inputTokens: countOf(member(told, "input_tokens")), outputTokens, reasoningTokens });
}

/** The provider's counts with those of the models that wrote its SVGs. */
export function withSvgs(usage: Units, parts: readonly ModelPart[]): Units {
  if (parts.length === 0) return usage;
  const all = { ...usage };
  for (const part of parts) addUnits(all, part.usage);
  return all;
}

/** Tokens of SVGs, which the provider's own total lacks. */
export function svgTokens(parts: readonly ModelPart[]): bigint {
  return Object.values(withSvgs({}, parts)).reduce((sum, count) => sum + count, 0n);
}
