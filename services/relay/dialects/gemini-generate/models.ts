import type { Quirk } from "../conversation.ts";

/** How generations of Gemini differ; names that are not known yet are taken for the newest. */
export type Traits = {
  /** Thinks by level, by a budget of tokens, or not at all. */
  thinksBy: "level" | "budget" | "nothing";
  /** Levels, where it thinks by them. */
  hasMinimalLevel: boolean;
  hasMediumLevel: boolean;
  /** Tokens of thinking, where it thinks by a budget; 0 is no thinking. */
  leastBudget: number;
  greatestBudget: number;
  /** Refuses calls that come back without the signature they had. */
  checksSignatures: boolean;
  /** Takes pictures and files within the result of a function. */
  readsMediaInResults: boolean;
  /** Takes a format of the answer beside functions. */
  formatsBesideTools: boolean;
  takesPenalties: boolean;
};

/** 2.5 of `gemini-2.5-pro`; the names behind `-latest` go with the newest models. */
function generationOf(model: string): number {
  const version = /gemini-(\d+(?:\.\d+)?)/i.exec(model)?.[1];
  return version === undefined ? Number.POSITIVE_INFINITY : Number(version);
}

function thinksBy(generation: number, quirks: ReadonlySet<Quirk>): Traits["thinksBy"] {
  if (quirks.has("no-thinking") || generation < 2.5) return "nothing";
  return generation >= 3 || quirks.has("adaptive-thinking") ? "level" : "budget";
}

export function traitsOf(model: string, quirks: ReadonlySet<Quirk>): Traits {
  const generation = generationOf(model);
  const isPro = /-pro(?:-|$)/i.test(model);
  return {
    thinksBy: thinksBy(generation, quirks),
    // Pro models and newer Flash models begin at LOW, which all models know.
    hasMinimalLevel: /flash-lite/i.test(model) || /gemini-3(?:\.[0-6])?-flash/i.test(model),
    hasMediumLevel: !/gemini-3-pro/i.test(model),
    leastBudget: isPro ? 128 : 0,
    greatestBudget: isPro ? 32_768 : 24_576,
    checksSignatures: generation >= 3,
    readsMediaInResults: generation >= 3,
    formatsBesideTools: generation >= 3,
    takesPenalties: generation < 2.5 || generation >= 3,
  };
}
