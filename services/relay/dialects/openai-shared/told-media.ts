import type { Units } from "#shared/money/pricing.ts";
import type { ToldUsage } from "../answer.ts";
import { lacksAny, noCounts } from "../dialect.ts";

/** The fields that tell all of an answer's input, and all of its output. */
type Wholes = { input: string; output: string };

/**
 * What counts tell of an answer that is sound or pictures: of all of it where both sides are told, else of one. The
 * side that is not told is not one of 0 tokens: what the request settles, or the answer shows, stands for it.
 */
export function toldOfMedia(
  usage: unknown,
  units: Units | undefined,
  { input, output }: Wholes,
): ToldUsage | undefined {
  if (!units || units === noCounts) return units && { scope: "answer", units, isLast: true };
  const lacksOutput = lacksAny(usage, [output]);
  if (lacksAny(usage, [input])) return lacksOutput ? undefined : { scope: "answer", units, isPartial: true };
  if (!lacksOutput) return { scope: "answer", units, isLast: true };
  const { outputTokens: _, audioOutputTokens: __, imageOutputTokens: ___, ...read } = units;
  return { scope: "input", units: read };
}
